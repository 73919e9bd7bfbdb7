// Programs that generate have no labels, so they have no router losses.
#include <gtest/gtest.h>

#include "model/presets.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, DropRouterLosses) {
  CompileRequest r = testing::tiny_request();
  model::apply_family(model::Family::kMixtral, r.model);
  r.kind = ProgramKind::kLogits;
  testing::expect_change("drop_router_losses", r);
}

}  // namespace tessera::compile
