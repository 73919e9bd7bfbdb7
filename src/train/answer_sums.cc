// Programs of a run that compute log-probabilities of answers, and their results.
#include "train/answer_sums.h"

#include <algorithm>
#include <array>

#include "compile/compile.h"
#include "config/run_request.h"
#include "ir/ops/preference.h"

namespace tessera::train {
namespace {

int64_t microbatches_of(const Program& p) {
  int64_t count = 0;
  for (const Buffer& f : p.buffers)
    if (is_batch(p[p.kind(f.kind).values.at(0)].role)) count = std::max(count, f.microbatch + 1);
  return count;
}

}  // namespace

// Training and validation, then the smaller steps.
size_t reference_program(const config::RunConfig& config) {
  const auto request = config::compile_request(config, compile::ProgramKind::kTrain);
  return 2 + compile::smaller_steps(request).size();
}

// With the reference from the weights of the start, both programs are the same.
size_t answers_program(const config::RunConfig& config) {
  const bool own = config.objective.reference == config::ReferenceSource::kAdaptersOff;
  return reference_program(config) + (own ? 1 : 0);
}

bool owns_answers(const runtime::RankPosition& p) {
  for (const AxisKind a : {AxisKind::kContext, AxisKind::kTensorKv, AxisKind::kTensor})
    if (p.at[a] > 0) return false;
  return p.at[AxisKind::kPipeline] + 1 == p.mesh[AxisKind::kPipeline];
}

std::span<const double> answer_sums(const runtime::Executor& executor) {
  const runtime::BoundProgram& bound = executor.bound();
  const TensorView sums = bound.view(bound.only(Role::kLogits));
  return {sums.as<double>(), static_cast<size_t>(sums.elements())};
}

void estimate_kl(const config::RunConfig& config, runtime::Engine& engine, size_t program,
                 comm::World* world, BatchMemory& batch) {
  if (config.objective.kind != config::ObjectiveKind::kKto) return;
  const int64_t number = batch.step();
  runtime::Executor &step = engine.executor(program),
                    &answers = engine.executor(answers_program(config));
  std::vector<StoredBatch> all = batch.stored(step, microbatches_of(engine.program(program)));
  const bool owns = owns_answers(engine.position());
  std::array<double, 2> sums = {};  // the sum of the differences, and their number
  for (const StoredBatch& one : all) {
    const data::BatchView view = batch.view(answers, 0);
    for (size_t b = 0; b < view.samples.size(); ++b) copy_row(one, b, view, b);
    answers.run();
    for (size_t b = 0; owns && b < view.samples.size(); ++b) {
      const double* const row = answer_sums(answers).data() + b * kAnswersPerRow * kAnswerColumns;
      const double* const other = row + kAnswerColumns;
      if (row[kAnswerTokens] == 0 || other[kAnswerTokens] == 0) continue;
      sums[0] += other[kAnswerSum] - one.references[b * kReferenceColumns + kRejectedReference];
      sums[1] += 1;
    }
  }
  if (world != nullptr) world->all_reduce(sums, comm::Reduction::kSum);
  const double z = sums[1] == 0 || sums[0] < 0 ? 0 : sums[0] / sums[1];
  for (StoredBatch& one : all)
    for (size_t i = kRejectedReference; i < one.references.size(); i += kReferenceColumns)
      one.references[i] = z;
  batch.rewrite(step, all, number);
}

}  // namespace tessera::train
