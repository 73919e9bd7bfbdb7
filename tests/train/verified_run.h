// A few steps on all ranks of a test beside the same on one rank, value by value.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "compile/compile.h"
#include "config/run_request.h"
#include "tests/comm/ranks.h"
#include "train/compare_values.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::testing {

constexpr int64_t kSteps = 2;

// Any function of (sample, place) that is not constant will do as text.
inline data::BatchSource batches_of(const config::RunConfig& c, int64_t rank) {
  data::BatchShape shape;
  shape.global = c.batch.global;
  shape.micro = c.batch.micro;
  shape.sequence_length = c.data.sequence_length;
  shape.rank = rank;
  shape.ranks = c.layout.data;
  return data::BatchSource(shape, [](int64_t sample, std::span<int32_t> out) {
    const int64_t n =
        sample % 3 == 2 ? static_cast<int64_t>(out.size()) - 3 : static_cast<int64_t>(out.size());
    for (int64_t t = 0; t < n; ++t)
      out[static_cast<size_t>(t)] = static_cast<int32_t>((sample * 31 + t * t * 7 + 3) % 90);
    return n;
  });
}

// Trains with these programs, one a stage.
inline train::RankRecords trained(const config::RunConfig& c, const std::vector<Program>& stages,
                                  comm::World& world) {
  auto kernels = std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1);
  compile::CompileRequest validation = config::compile_request(c, compile::ProgramKind::kValidate);
  validation.stage = coordinates_of(stages[0].mesh, world.rank())[AxisKind::kPipeline];
  std::vector<Program> programs = {stages[static_cast<size_t>(validation.stage)],
                                   compile::compile(validation, kernels->target())};
  train::Trainer trainer(
      c, std::make_unique<runtime::Engine>(std::move(programs), std::move(kernels),
                                           runtime::EngineOptions{.world = &world}));
  trainer.initialize();
  data::BatchSource source = batches_of(c, trainer.data_rank());
  train::ValueRecorder recorder(trainer.program(), trainer.engine().position());
  for (int64_t step = 1; step <= kSteps; ++step) {
    trainer.step(step, 1e-2, source, recorder.observer(step));
    recorder.finish(trainer.gradients(), trainer.state());
  }
  return recorder.records();
}

inline std::vector<Program> stages_of(const config::RunConfig& c) {
  return compile::compile_stages(config::compile_request(c, compile::ProgramKind::kTrain),
                                 runtime::PreparedKernels(read_cpu_features(), 1).target());
}

// The same run on one rank: micro-batches as large as those of all data ranks together.
inline train::RankRecords on_one_rank(config::RunConfig c) {
  c.batch.micro *= c.layout.data;
  if (c.layout.tensor > 1) c.compiler.cross_entropy = compile::CrossEntropyKind::kUnfused;
  const std::string recompute = c.layout.recompute;
  c.layout = compile::Layout();
  c.layout.recompute = recompute;
  const auto world = comm::self_world();
  return trained(c, stages_of(c), *world);
}

// On rank 0, which has everyone's; the others return nothing.
inline std::vector<train::RankRecords> on_all_ranks(const config::RunConfig& c,
                                                    const std::vector<Program>& stages) {
  std::vector<train::RankRecords> all;
  for (const std::string& text : ranks().all_gather(train::to_text(trained(c, stages, ranks()))))
    if (ranks().rank() == 0) all.push_back(train::parse_records(text, "a rank"));
  return all;
}

// Expects all values of a run's steps on these ranks to be those of one rank. `what` names the
// case.
inline void expect_equal(const config::RunConfig& c, const std::string& what) {
  const std::vector<train::RankRecords> all = on_all_ranks(c, stages_of(c));
  if (ranks().rank() != 0) return;
  const train::ValueComparison found = train::compare_values(
      on_one_rank(c), all,
      train::value_bounds(config::compile_request(c, compile::ProgramKind::kTrain)));
  EXPECT_GT(found.compared, 100) << what;
  EXPECT_FALSE(found.first.has_value()) << what << ": " << found.first->told;
}

}  // namespace tessera::testing
