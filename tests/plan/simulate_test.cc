// What must hold of a simulated step, whatever the machine.
#include "plan/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "compile/compile.h"
#include "model/presets.h"
#include "plan/links.h"
#include "plan/op_time.h"
#include "plan/predict.h"
#include "tests/compile/random_layout.h"
#include "tests/plan/machine.h"

namespace tessera::plan {
namespace {

using testing::plain_machine;
using testing::SchedulePrograms;
using testing::with_free_messages;

compile::PipelineShape shape_of(compile::PipelineSchedule schedule, int64_t stages,
                                int64_t microbatches, int64_t interleave = 1) {
  compile::PipelineShape p;
  p.schedule = schedule;
  p.stages = stages;
  p.microbatches = microbatches;
  p.interleave = interleave;
  p.cost.assign(static_cast<size_t>(p.chunks()), 1);
  return p;
}

// A forward of 1 ms (1e9 bytes at 1e12 a second) and a backward of 2.
int64_t step_ns(const compile::PipelineShape& shape) {
  const Hardware h = with_free_messages(plain_machine());
  return timeline_of(SchedulePrograms(shape, 1'000'000'000).make(), h, {}).step_ns;
}

TEST(Simulate, FreeMessagesGiveTheFormulasOfTheSchedules) {
  constexpr int64_t kF = 1'000'000, kB = 2'000'000;
  for (const int64_t S : {1, 2, 3, 5, 8})
    for (const int64_t m : {1, 2, 4, 8, 24}) {
      const int64_t wanted = (m + S - 1) * (kF + kB);
      EXPECT_EQ(step_ns(shape_of(compile::PipelineSchedule::kGpipe, S, m)), wanted)
          << S << " " << m;
      EXPECT_EQ(step_ns(shape_of(compile::PipelineSchedule::k1F1B, S, m)), wanted) << S << " " << m;
    }
  for (const int64_t S : {2, 4})
    for (const int64_t V : {2, 3})
      EXPECT_EQ(step_ns(shape_of(compile::PipelineSchedule::kInterleaved1F1B, S, 2 * S, V)),
                (2 * S * V + S - 1) * (kF + kB));
}

TEST(Simulate, TheBubbleIsWhatTheFormulaSays) {
  const Hardware h = with_free_messages(plain_machine());
  const compile::PipelineShape shape = shape_of(compile::PipelineSchedule::k1F1B, 4, 12);
  const Prediction p = simulate(SchedulePrograms(shape, 1'000'000'000).make(), h, {});
  EXPECT_NEAR(p.bubble(), 3.0 / (12 + 3), 1e-9);
  EXPECT_NEAR(p.parts.sum(), p.step_s, 1e-12);
}

compile::CompileRequest small_gpt2() {
  compile::CompileRequest r;
  model::apply_family(model::Family::kGpt2, r.model);
  r.model.layers = 4;
  r.model.hidden = 256;
  r.model.heads = 4;
  r.model.vocabulary = r.model.vocabulary_multiple = 1024;
  r.model.context = r.tokens = 128;
  model::derive_sizes(r.model);
  r.sequences = 2;
  r.microbatches = 4;
  r.precision = compile::Precision::kBf16;
  return r;
}

int64_t arena_of(compile::CompileRequest r, int64_t microbatches) {
  r.microbatches = microbatches;
  return compile::compile(r, Target{}).bytes;
}

// The programs of warm-up steps share the arena of a full step. Here the one with half of the
// micro-batches needs more, because its buffers are packed differently.
TEST(Simulate, TheArenaHasRoomForWarmupSteps) {
  compile::CompileRequest r = small_gpt2();
  model::apply_family(model::Family::kLlama, r.model);
  r.model.layers = 2;
  r.model.hidden = 32;
  r.model.head_width = 8;
  r.model.feed_forward = 128;
  r.model.vocabulary = r.model.vocabulary_multiple = 96;
  r.tokens = 16;
  r.precision = compile::Precision::kFp32;
  r.layout.data = 2;
  r.layout.offload = "activations";
  r.layout.overlap = 2;
  r.layout.pipeline_schedule = compile::PipelineSchedule::kGpipe;
  const int64_t full = arena_of(r, 4), warmup = arena_of(r, 2);
  ASSERT_GT(warmup, full);
  const Prediction alone = predict(r, plain_machine(), {}, Target{});
  EXPECT_EQ(alone.fullest().memory.arena, full);
  r.warmup_microbatches = {2};
  const Prediction p = predict(r, plain_machine(), {}, Target{});
  EXPECT_EQ(p.fullest().memory.arena, warmup);
  EXPECT_EQ(p.fullest().peak_bytes - alone.fullest().peak_bytes, warmup - full);
  EXPECT_EQ(p.step_s, alone.step_s);
}

TEST(Simulate, TheNoiseScaleHasAStepOfOneMicrobatch) {
  compile::CompileRequest r = small_gpt2();
  r.measures_noise = true;
  const std::vector<compile::CompileRequest> steps = compile::smaller_steps(r);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].microbatches, 1);
  r.warmup_microbatches = {3, 2};
  EXPECT_EQ(compile::smaller_steps(r).size(), 3u);
}

TEST(Simulate, OneRankTakesTheSumOfItsOps) {
  const Hardware h = plain_machine();
  const std::vector<Program> stages = compile::compile_stages(small_gpt2(), cluster_target());
  const Program& p = stages.at(0);
  const ValueVector local = local_values(p.values);
  double sum = 0, calls = 0;
  for (const Call& c : p.schedule)
    for (const Op& op : p.segment(c).ops) {
      sum += op_s(op, cost_of(op, local), local, h, {});
      const bool adds =
          std::find(c.first_write.begin(), c.first_write.end(), true) == c.first_write.end();
      if (op.is<MatmulGradWeight>() && adds)
        sum += static_cast<double>(local[op.outputs[0]].bytes()) / 1e12;
      ++calls;
    }
  const Prediction got = simulate(stages, h, {});
  EXPECT_NEAR(got.step_s, sum, calls * 0.5e-9);  // each op is rounded to a nanosecond
  EXPECT_EQ(got.parts.exposed_s(), 0);
  EXPECT_EQ(got.parts.bubble, 0);
  EXPECT_EQ(got.fullest().memory.arena, p.bytes);
}

TEST(Simulate, TheHostsLaunchesAreAFloor) {
  const std::vector<Program> stages = compile::compile_stages(small_gpt2(), cluster_target());
  Software slow;
  slow.launch_s = 1e-3;
  slow.step_s = 0.25;
  double launches = 0;
  for (const Call& c : stages[0].schedule)
    launches += static_cast<double>(stages[0].segment(c).ops.size());
  const Prediction p = simulate(stages, plain_machine(), slow);
  EXPECT_NEAR(p.step_s, 0.25 + launches * 1e-3, 1e-6);
  EXPECT_GT(p.parts.host, 0.9 * p.step_s);
}

TEST(Simulate, TheSoftwaresAttentionTakesItsShareOfTheRate) {
  const std::vector<Program> stages = compile::compile_stages(small_gpt2(), cluster_target());
  Hardware h = plain_machine();
  h.device.memory_bytes_per_s = 1e18;
  Software slow;
  slow.attention_share = 0.25;
  const Prediction fast = simulate(stages, h, {}), p = simulate(stages, h, slow);
  const double attention = fast.parts.attention();
  ASSERT_GT(attention, 0);
  EXPECT_NEAR(p.parts.attention() / attention, 4, 0.01);
  EXPECT_NEAR(p.step_s - fast.step_s, 3 * attention, 0.01 * attention);
}

compile::CompileRequest small_mixtral() {
  compile::CompileRequest r = small_gpt2();
  model::apply_family(model::Family::kMixtral, r.model);
  r.model.feed_forward = r.model.kv_heads = 0;
  model::derive_sizes(r.model);
  return r;
}

TEST(Software, TheBusiestRankFollowsFromTheBusiestExpert) {
  EXPECT_EQ(busiest_rank(1.6, 64, 64), 1);           // one rank has all experts
  EXPECT_DOUBLE_EQ(busiest_rank(1.6, 64, 1), 1.6);   // one expert per rank
  EXPECT_DOUBLE_EQ(busiest_rank(1.6, 64, 8), 1.15);  // 1 + 0.6 √(ln 8 / (8 ln 64))
  EXPECT_EQ(busiest_rank(1e4, 64, 32), 2);           // two ranks: at most all tokens on one
  EXPECT_EQ(busiest_rank(1, 64, 8), 1);
}

// Experts take longer by the load of the busiest rank where ranks divide them, and as long as
// before on one rank.
TEST(Simulate, RanksWaitForTheBusiestExperts) {
  compile::CompileRequest r = small_mixtral();
  Hardware h = with_free_messages(plain_machine());
  h.device.memory_bytes_per_s = 1e18;
  Software uneven;
  Software even;
  even.expert_imbalance = 1;
  uneven.expert_imbalance = 2;
  EXPECT_EQ(predict(r, h, uneven, cluster_target()).step_s,
            predict(r, h, even, cluster_target()).step_s);
  r.layout.data = r.layout.expert = 4;
  const std::vector<Program> stages = compile::compile_stages(r, cluster_target());
  const ValueVector local = local_values(stages[0].values);
  double experts = 0;
  for (const Call& c : stages[0].schedule)
    for (const Op& op : stages[0].segment(c).ops)
      if (op.is<Experts>() || op.is<ExpertsGrad>())
        experts += op_s(op, cost_of(op, local), local, h, even);
  ASSERT_GT(experts, 0);
  const double more = busiest_rank(2, r.model.experts, r.model.experts / 4) - 1;
  ASSERT_GT(more, 0.3);
  EXPECT_NEAR(simulate(stages, h, uneven).step_s - simulate(stages, h, even).step_s, more * experts,
              1e-3 * experts);
}

TEST(Simulate, CountsOnlyTheChosenExperts) {
  compile::CompileRequest r = small_mixtral();
  const double two = compile::model_flops(r);
  r.model.experts = 16;
  const double routers = 6.0 * 8 * 256 * 4 * static_cast<double>(r.sequences * r.tokens);
  EXPECT_NEAR(compile::model_flops(r) / (two + routers), 1, 1e-9);
  const Prediction p = predict(r, plain_machine(), {}, cluster_target());
  EXPECT_NEAR(p.model_flops / (compile::model_flops(r) * static_cast<double>(r.microbatches)), 1,
              1e-9);
}

TEST(Simulate, CountsTheOperationsOfTheModel) {
  compile::CompileRequest r = small_gpt2();
  const Hardware h = plain_machine();
  const double model = compile::model_flops(r) * static_cast<double>(r.microbatches);
  for (const char* recompute : {"none", "selective", "full"}) {
    r.layout.recompute = recompute;
    const Prediction p = predict(r, h, {}, cluster_target());
    EXPECT_NEAR(p.model_flops / model, 1, 1e-9) << recompute;
    EXPECT_EQ(p.tokens, r.sequences * r.tokens * r.microbatches);
  }
  r.options.attention = compile::AttentionKind::kUnfused;
  r.options.cross_entropy = compile::CrossEntropyKind::kUnfused;
  EXPECT_NEAR(predict(r, h, {}, cluster_target()).model_flops / model, 1, 1e-9);
}

// 24 k B s L h^2 (1 + s/6h + V/16Lh) with k = 4, and 3 without recomputation.
TEST(Simulate, CountsAsTheFrontierPaperDoes) {
  compile::CompileRequest r = small_gpt2();
  const auto L = 4.0, H = 256.0, s = 128.0, V = 1024.0;
  const double B = static_cast<double>(r.sequences * r.microbatches);
  r.layout.recompute = "full";
  const double four = 24 * 4 * B * s * L * H * H * (1 + s / (6 * H) + V / (16 * L * H));
  EXPECT_NEAR(predict(r, plain_machine(), {}, cluster_target()).counter_flops / four, 1, 1e-9);
}

TEST(Simulate, RandomLayoutsEndAndTheirPartsAddUp) {
  testing::LayoutDraw draw(7);
  Software blocking;
  blocking.overlap_data = blocking.overlap_pipeline = false;
  for (int n = 0; n < 150; ++n) {
    const compile::CompileRequest r = draw.request(24);
    const std::vector<Program> stages = compile::compile_stages(r, cluster_target());
    for (const Software& software : {Software{}, blocking}) {
      const Prediction p = simulate(stages, plain_machine(), software);
      ASSERT_GT(p.step_s, 0);
      for (const StagePrediction& s : p.stages) {
        ASSERT_NEAR(s.parts.sum() / p.step_s, 1, 1e-9);
        ASSERT_GE(s.parts.bubble, 0);
        for (const double x : s.parts.exposed) ASSERT_GE(x, 0);
      }
    }
  }
}

TEST(Simulate, FasterLinksAndMemoryAreNeverSlower) {
  testing::LayoutDraw draw(11);
  for (int n = 0; n < 40; ++n) {
    const std::vector<Program> stages = compile::compile_stages(draw.request(24), cluster_target());
    const double before = simulate(stages, plain_machine(), {}).step_s;
    const auto with = [&](auto change) {
      Hardware h = plain_machine();
      change(h);
      return simulate(stages, h, {}).step_s;
    };
    EXPECT_LE(with([](Hardware& h) { h.node.bytes_per_s *= 2; }), before);
    EXPECT_LE(with([](Hardware& h) { h.network.bytes_per_s *= 2; }), before);
    EXPECT_LE(with([](Hardware& h) { h.device.memory_bytes_per_s *= 2; }), before);
    EXPECT_LE(with([](Hardware& h) { h.device.bf16_flops_per_s *= 2; }), before);
    EXPECT_LE(with([](Hardware& h) { h.node.latency_s = h.network.latency_s = 0; }), before);
  }
}

// Data ranks alone: what may run beside computation never makes the step longer.
TEST(Simulate, OverlapIsNeverSlower) {
  testing::LayoutDraw draw(5);
  Software none;
  none.overlap_data = false;
  for (int n = 0; n < 60; ++n) {
    compile::CompileRequest r = draw.request(16);
    r.layout.pipeline = 1;
    r.layout.interleave = 1;
    r.layout.stages.clear();
    r.layout.pipeline_schedule = compile::PipelineSchedule::k1F1B;
    const std::vector<Program> stages = compile::compile_stages(r, cluster_target());
    EXPECT_LE(simulate(stages, plain_machine(), {}).step_s,
              simulate(stages, plain_machine(), none).step_s);
  }
}

// Bytes of all copies in one direction.
double copied_bytes(const Program& p) {
  double bytes = 0;
  for (const Call& c : p.schedule)
    if (p.segment(c).queue == Queue::kCopyOut)
      bytes += static_cast<double>(p.bytes_of(c.buffers[0]));
  return bytes;
}

TEST(Simulate, CopiesToTheHostHideBehindComputationOrAreWaitedFor) {
  compile::CompileRequest r;
  ASSERT_TRUE(model::apply_preset("pythia-14m", r.model));
  r.model.layers = 12;
  model::derive_sizes(r.model);
  r.tokens = 512;
  r.microbatches = 2;
  Hardware h = plain_machine();
  const double kept = simulate({compile::compile(r, {})}, h, {}).step_s;
  r.layout.offload = "activations";
  const Program p = compile::compile(r, {});
  const auto exposed = [](const Prediction& s) { return s.parts.exposed[TrafficKind::kHost]; };
  h.device.host_bytes_per_s = 1e30;
  EXPECT_NEAR(simulate({p}, h, {}).step_s, kept, 1e-6 * kept);
  // A link that takes a hundred times the step: out and back are two queues, but of one micro-batch
  // what comes back went out before.
  h.device.host_bytes_per_s = copied_bytes(p) / (100 * kept);
  const Prediction slow = simulate({p}, h, {});
  EXPECT_GT(slow.step_s, 100 * kept);
  EXPECT_LT(slow.step_s, 202 * kept);
  EXPECT_NEAR(exposed(slow), slow.step_s - kept, 0.05 * slow.step_s);
  EXPECT_NEAR(slow.parts.sum(), slow.step_s, 1e-6 * slow.step_s);
  EXPECT_EQ(slow.stages[0].memory.host, p.host_bytes);
  h.device.host_bytes_per_s = 0;
  EXPECT_THROW(simulate({p}, h, {}), Error);
  // A processor copies within its own memory, and computes nothing meanwhile.
  h.device.kind = DeviceKind::kCpu;
  const double copies = 2 * 2 * copied_bytes(p) / h.device.memory_bytes_per_s;
  const Prediction here = simulate({p}, h, {});
  double ops = 0;
  for (const Call& c : p.schedule) ops += static_cast<double>(p.segment(c).ops.size());
  EXPECT_NEAR(here.step_s, kept + copies, ops * 0.5e-9);  // each is rounded to a nanosecond
  EXPECT_EQ(here.stages[0].peak_bytes, p.bytes + p.host_bytes);
}

// The predictions of a step over a free link, and over one on which its communication needs `share`
// of that time: without the option, with it, and with it on software that cannot overlap.
struct Overlapped {
  Prediction quick, off, on, serial;
};
Overlapped overlapped(compile::CompileRequest r, bool compile::CompilerOptions::*option,
                      double share) {
  const auto step = [&](bool overlap, const Hardware& h, const Software& software) {
    r.options.*option = overlap;
    const Prediction p = simulate(compile::compile_stages(r, cluster_target()), h, software);
    EXPECT_NEAR(p.parts.sum(), p.step_s, 1e-9 * p.step_s);
    return p;
  };
  Hardware h = plain_machine();
  h.node.latency_s = 0;
  const Prediction quick = step(false, with_free_messages(h), {});
  const double sent = step(false, h, {}).parts.exposed_s() * h.node.bytes_per_s;
  h.node.bytes_per_s = sent / (share * quick.step_s);
  Software serial;
  serial.overlap_tensor = false;
  return {quick, step(false, h, {}), step(true, h, {}), step(true, h, serial)};
}

// Collectives of tensor ranks that take half of the computation. What they hide is at most all of
// them; software that does not overlap them takes their sum.
TEST(Simulate, CollectivesOfTensorRanksHideBehindTheComputationOfALayer) {
  compile::CompileRequest r = small_gpt2();
  r.sequences = 4;
  r.model.hidden = 1024;
  model::derive_sizes(r.model);
  r.layout.tensor = 2;
  const auto [quick, off, on, serial] =
      overlapped(r, &compile::CompilerOptions::tp_comm_overlap, 0.5);
  EXPECT_NEAR(off.parts.exposed_s(), 0.5 * quick.step_s, 0.01 * quick.step_s);
  EXPECT_LT(on.parts.exposed_s(), 0.4 * off.parts.exposed_s());
  EXPECT_NEAR(serial.parts.exposed_s(), off.parts.exposed_s(), 0.01 * off.parts.exposed_s());
}

// The exchange of tokens and the reduction of gradients take at least three tenths of the time of
// the computation. The shared MLP and the router run during the exchange; what remains is counted
// as before, for the axis of the experts.
TEST(Simulate, TheExchangeOfTokensHidesBehindTheSharedExperts) {
  compile::CompileRequest r = small_gpt2();
  model::apply_family(model::Family::kDeepseekV2, r.model);
  r.sequences = 4;
  r.model.hidden = 1024;
  r.model.heads = r.model.kv_heads = 8;
  r.model.experts = 8;
  r.model.experts_per_token = 2;
  r.model.expert_feed_forward = 1024;
  r.model.shared_feed_forward = 4096;
  r.model.dense_layers.clear();
  r.model.latent = {.key_value_rank = 64, .nope_width = 64, .rope_width = 32, .value_width = 64};
  model::derive_sizes(r.model);
  r.layout.data = r.layout.expert = 2;
  r.layout.zero = 0;
  r.microbatches = 32;  // gradients are reduced once per step
  const auto [quick, off, on, serial] =
      overlapped(r, &compile::CompilerOptions::ep_comm_overlap, 0.3);
  EXPECT_GT(off.parts.exposed_s(), 0.3 * quick.step_s);
  EXPECT_LT(on.parts.exposed_s(), 0.5 * off.parts.exposed_s()) << off.parts.exposed_s();
  EXPECT_EQ(off.parts.exposed[TrafficKind::kTensor], 0);
  EXPECT_EQ(on.parts.exposed[TrafficKind::kTensor], 0);
  EXPECT_NEAR(serial.parts.exposed_s(), off.parts.exposed_s(), 0.01 * off.parts.exposed_s());
}

TEST(Simulate, IsAFunction) {
  testing::LayoutDraw draw(3);
  const std::vector<Program> stages = compile::compile_stages(draw.request(24), cluster_target());
  EXPECT_EQ(timeline_of(stages, plain_machine(), {}).step_ns,
            timeline_of(stages, plain_machine(), {}).step_ns);
}

}  // namespace
}  // namespace tessera::plan
