// Computes losses of pairs on the host, by the function that the kernels use.
#include "train/pair_metrics.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/real.h"
#include "ir/ops/preference.h"
#include "ir/state.h"
#include "runtime/ops/arguments.h"

namespace tessera::train {
namespace {

using Kind = config::ObjectiveKind;

constexpr int64_t kNumbers = kAnswersPerRow * kAnswerColumns;
constexpr int64_t kSecond = kAnswerColumns;  // the sums of the second answer of a pair

// Returns z of kto: the mean over the pairs of the second answers' log-probabilities, less those of
// the reference model, or 0 if that is negative.
double divergence_of(const data::PreferenceData& data, std::span<const double> sums,
                     int64_t pairs) {
  double sum = 0;
  for (int64_t p = 0; p < pairs; ++p)
    sum += sums[p * kNumbers + kSecond + kAnswerSum] - data.references(p)[1];
  return sum < 0 ? 0 : sum / static_cast<double>(pairs);
}

// Returns pairs / tokens of chosen answers, the factor of the cross-entropy of orpo.
double factor_of(std::span<const double> sums, int64_t pairs) {
  double tokens = 0;
  for (int64_t p = 0; p < pairs; ++p) tokens += sums[p * kNumbers + kAnswerTokens];
  return static_cast<double>(pairs) / tokens;
}

}  // namespace

PreferenceMetrics preference_of(const config::ObjectiveSection& objective, const double* report) {
  CHECK(objective.has_pairs(), "the report counts tokens");
  const double pairs = std::max(report[kLossTokens], 1.0);
  const bool kto = objective.kind == Kind::kKto;
  const double chosen = kto ? std::max(report[kPreferred], 1.0) : pairs;
  const double rejected = kto ? std::max(report[kLossTokens] - report[kPreferred], 1.0) : pairs;
  PreferenceMetrics m;
  m.chosen_reward = report[kChosenReward] / chosen;
  m.rejected_reward = report[kRejectedReward] / rejected;
  m.accuracy = report[kPreferred] / pairs;
  m.chosen_log_prob = report[kChosenLogProb] / chosen;
  m.rejected_log_prob = report[kRejectedLogProb] / rejected;
  m.has_accuracy = !kto;
  m.has_log_probs = objective.kind != Kind::kReward;
  if (kto) m.kl = report[kObjectiveFigure] / pairs;
  if (objective.kind == Kind::kOrpo) m.chosen_nll = report[kObjectiveFigure] / pairs;
  return m;
}

std::vector<kernels::PairLoss> losses_of_pairs(const config::ObjectiveSection& objective,
                                               const data::PreferenceData& data,
                                               std::span<const double> sums) {
  const int64_t pairs = std::ssize(sums) / kNumbers;
  CHECK(pairs > 0 && pairs <= data.pairs(), "sums of {} pairs of {}", pairs, data.pairs());
  const kernels::PreferenceForm form = runtime::form_of(*config::preference_terms(objective));
  const double z = objective.kind == Kind::kKto ? divergence_of(data, sums, pairs) : 0;
  const double factor = objective.kind == Kind::kOrpo ? factor_of(sums, pairs) : 0;
  std::vector<kernels::PairLoss> losses;
  for (int64_t p = 0; p < pairs; ++p) {
    const auto given = data.references(p);
    std::array<double, kReferenceColumns> references = {given[0], given[1], data.figure(p)};
    if (objective.kind == Kind::kKto) references[kRejectedReference] = z;
    if (objective.kind == Kind::kOrpo) references[kPairFigure] = factor;
    losses.push_back(kernels::pair_loss(form, &sums[p * kNumbers], references.data()));
  }
  return losses;
}

PairsResult result_of_pairs(const config::ObjectiveSection& objective,
                            std::span<const kernels::PairLoss> losses) {
  std::array<double, kReportSize> report = {};
  for (const kernels::PairLoss& pair : losses) {
    report[kLossSum] += pair.loss;
    report[kLossTokens] += pair.counts ? 1 : 0;
    for (int i = 0; i < kernels::kPreferenceFigures; ++i)
      report[kChosenReward + i] += pair.figures[i];
  }
  return {report[kLossSum] / std::max(report[kLossTokens], 1.0),
          static_cast<int64_t>(report[kLossTokens]), preference_of(objective, report.data())};
}

}  // namespace tessera::train
