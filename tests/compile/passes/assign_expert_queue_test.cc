// The collectives around the experts of a layer go to a queue of their own.
#include <gtest/gtest.h>

#include "model/presets.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AssignExpertQueue) {
  CompileRequest r = testing::tiny_request(model::Family::kDeepseekV2);
  r.model.experts = 4;
  r.model.experts_per_token = 2;
  r.model.expert_feed_forward = r.model.shared_feed_forward = 16;
  r.model.latent = {.key_value_rank = 8, .nope_width = 4, .rope_width = 4, .value_width = 4};
  model::derive_sizes(r.model);
  r.layout.data = r.layout.expert = 2;
  r.options.ep_comm_overlap = true;
  testing::expect_change("assign_expert_queue", r);
}

}  // namespace tessera::compile
