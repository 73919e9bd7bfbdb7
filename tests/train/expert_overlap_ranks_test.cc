// Steps of training whose exchange of tokens overlaps with the computation of a layer, in layouts
// of two and four ranks, against the same steps without overlap: losses and the whole state are
// equal in every bit.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "config/run_request.h"
#include "model/presets.h"
#include "tests/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/trainer.h"

namespace tessera::testing {
namespace {

using compile::ContextMethod;
using compile::PipelineSchedule;

struct Way {
  int64_t data, expert, tensor, pipeline, context, zero;
  std::string recompute = "none";
  ContextMethod method = ContextMethod::kGather;
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  bool sequence_parallel = true, tensor_overlap = false;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      // data, expert, tensor, pipeline, context, zero
      {2, 2, 1, 1, 1, 0},
      {2, 2, 1, 1, 1, 3},
      {2, 2, 1, 1, 1, 1, "selective"},
      {2, 2, 1, 1, 1, 2, "full"},
      {2, 2, 1, 1, 1, 1, "full:1"},
      {4, 4, 1, 1, 1, 2},
      {4, 2, 1, 1, 1, 3, "selective"},
      {2, 2, 2, 1, 1, 1},
      {.data = 2,
       .expert = 2,
       .tensor = 2,
       .pipeline = 1,
       .context = 1,
       .zero = 1,
       .sequence_parallel = false},
      {.data = 2,
       .expert = 2,
       .tensor = 2,
       .pipeline = 1,
       .context = 1,
       .zero = 3,
       .tensor_overlap = true},
      {2, 2, 1, 2, 1, 0},
      {2, 2, 1, 2, 1, 1, "none", ContextMethod::kGather, PipelineSchedule::kZeroBubble},
      {2, 2, 1, 2, 1, 1, "full", ContextMethod::kGather, PipelineSchedule::kGpipe},
      {2, 2, 1, 1, 2, 1},
      {2, 2, 1, 1, 2, 1, "none", ContextMethod::kRing},
      {2, 2, 1, 1, 2, 0, "selective", ContextMethod::kRing},
      {2, 2, 1, 1, 2, 2, "full", ContextMethod::kHeads},
  };
  return all;
}

std::string text_of(const Way& w) {
  return fmt::format(
      "data {} expert {} tensor {} pipeline {} context {} ({}) zero {} recompute {} schedule {} "
      "sequence_parallel {} tensor overlap {}",
      w.data, w.expert, w.tensor, w.pipeline, w.context, name_of_entry(w.method), w.zero,
      w.recompute, name_of_entry(w.schedule), w.sequence_parallel, w.tensor_overlap);
}

config::RunConfig config_of(model::Family family, const Way& w) {
  config::RunConfig c = train::tiny(family);
  c.model.kv_heads = 4;
  c.model.experts = 4;
  c.model.experts_per_token = 2;
  c.model.expert_feed_forward = 16;
  c.model.router.balance_loss = 0.05;
  if (c.model.latent.exists()) {
    c.model.shared_feed_forward = 32;
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 4, .rope_width = 4, .value_width = 6};
  }
  model::derive_sizes(c.model);
  c.layout.data = w.data;
  c.layout.expert = w.expert;
  c.layout.tensor = w.tensor;
  c.layout.pipeline = w.pipeline;
  c.layout.context = w.context;
  c.layout.zero = w.zero;
  c.layout.recompute = w.recompute;
  c.layout.context_method = w.method;
  c.layout.pipeline_schedule = w.schedule;
  c.layout.sequence_parallel = w.sequence_parallel;
  c.compiler.tp_comm_overlap = w.tensor_overlap;
  c.compiler.poison = true;
  c.run.threads = 1;
  c.batch.micro = 2;
  c.batch.global = 16;
  return c;
}

// Losses, gradient norms, and the bytes of the state after three steps.
struct Trained {
  std::vector<double> figures;
  std::string state;
  int64_t overlapped = 0;  // ops on the queue of the experts
};

Trained trained(config::RunConfig c, bool overlap) {
  c.compiler.ep_comm_overlap = overlap;
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, ranks(), {});
  trainer.initialize();
  data::BatchSource source = train::batches(c, trainer.data_rank());
  Trained t;
  for (int64_t step = 1; step <= 3; ++step) {
    const train::StepResult r = trainer.step(step, 1e-3, source);
    t.figures.push_back(r.loss);
    t.figures.push_back(r.grad_norm);
  }
  for (const checkpoint::StateTensor& s : trainer.state())
    t.state.append(s.data.as<char>(), static_cast<size_t>(s.data.bytes()));
  for (const Segment& s : trainer.program().segments)
    t.overlapped += std::count_if(s.ops.begin(), s.ops.end(),
                                  [](const Op& op) { return op.queue == Queue::kExpert; });
  return t;
}

class ExpertOverlapRanks : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, ExpertOverlapRanks,
                         ::testing::Values(model::Family::kDeepseekV3, model::Family::kMixtral),
                         [](const auto& f) { return name_of_entry(f.param); });

TEST_P(ExpertOverlapRanks, EveryLayoutHasTheBitsOfNoOverlap) {
  int layouts = 0;
  for (const Way& w : ways()) {
    const config::RunConfig c = config_of(GetParam(), w);
    if (compile::mesh_of(c.layout).ranks() != ranks().size()) continue;
    SCOPED_TRACE(text_of(w));
    ++layouts;
    const Trained off = trained(c, false), on = trained(c, true);
    EXPECT_EQ(off.overlapped, 0);
    EXPECT_GE(on.overlapped, 4);
    EXPECT_EQ(on.figures, off.figures);
    ASSERT_EQ(on.state.size(), off.state.size());
    EXPECT_TRUE(on.state == off.state);
  }
  EXPECT_GE(layouts, 5);
}

}  // namespace
}  // namespace tessera::testing
