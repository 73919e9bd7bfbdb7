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

// Its own program follows training, validation and the smaller steps.
size_t reference_program(const config::RunConfig& config) {
  if (config.objective.reference == config::ReferenceSource::kPrecomputed) return kAnswersProgram;
  const auto request = config::compile_request(config, compile::ProgramKind::kTrain);
  return kAnswersProgram + 1 + compile::smaller_steps(request).size();
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

AnswerPass::AnswerPass(runtime::Engine& engine, size_t program, BatchMemory& batch,
                       const data::PreferenceData& data, comm::World* world)
    : executor_(engine.executor(program)),
      data_(data),
      world_(world),
      view_(batch.view(executor_, 0)) {
  const runtime::RankPosition& at = engine.position();
  const int64_t own = std::ssize(view_.samples);
  together_ = own * group_size(at.mesh, data_ranks());
  begin_ = own * group_index(at.mesh, data_ranks(), at.at);
  owns_ = owns_answers(at);
}

std::vector<double> AnswerPass::run(int64_t first, int64_t end) {
  constexpr int64_t kNumbers = kAnswersPerRow * kAnswerColumns;
  data::fill_pair_batch(data_, first + begin_, end, view_);
  executor_.run();
  const int64_t count = std::min(together_, end - first);
  const int64_t own = std::clamp<int64_t>(count - begin_, 0, std::ssize(view_.samples));
  std::vector<double> sums(kNumbers * count);
  if (owns_ && own > 0)
    std::ranges::copy(answer_sums(executor_).first(kNumbers * own),
                      sums.begin() + kNumbers * begin_);
  if (world_ != nullptr) world_->all_reduce(sums, comm::Reduction::kSum);
  return sums;
}

std::vector<double> sums_of_pairs(AnswerPass& pass, int64_t pairs,
                                  const std::function<void(int64_t)>& on_progress) {
  std::vector<double> sums;
  for (int64_t first = 0; first < pairs; first += pass.together()) {
    const std::vector<double> more = pass.run(first, pairs);
    sums.insert(sums.end(), more.begin(), more.end());
    on_progress(std::min(first + pass.together(), pairs));
  }
  return sums;
}

void estimate_kl(const config::RunConfig& config, runtime::Engine& engine, size_t program,
                 comm::World* world, BatchMemory& batch) {
  if (config.objective.kind != config::ObjectiveKind::kKto) return;
  const int64_t number = batch.step();
  runtime::Executor &step = engine.executor(program), &answers = engine.executor(kAnswersProgram);
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
