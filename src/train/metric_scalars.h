// The figures of metrics.jsonl as single numbers with a name in each exporter: a TensorBoard tag
// and a Prometheus metric. docs/metrics.md has this list as a table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_array.h"
#include "train/metrics.h"
#include "train/task_metrics.h"

namespace tessera::train {

enum class Metric : uint8_t {
  kTokens,
  kLoss,
  kZLoss,
  kMtpLoss,
  kGradNorm,
  kNoiseScale,
  kLearningRate,
  kLossScale,
  kSkipped,
  kStepS,
  kDataS,
  kTokensPerS,
  kFlopsPerS,
  kFlopsShare,
  kResidentBytes,
  kHiddenS,
  kExposedS,
  kBubbleShare,
  kBytesSent,
  kSlowestRank,
  kSlowestOverMean,
  kRouterLoss,
  kBusiestExpert,
  kLoadEntropy,
  kDroppedShare,
  kRewardChosen,
  kRewardRejected,
  kRewardMargin,
  kRewardAccuracy,
  kLogpChosen,
  kLogpRejected,
  kKl,
  kChosenNll,
  kSourceLoss,
  kSourceTokens,
  kValidationLoss,
  kBitsPerByte,
  // In the order of the figures of a step, from kRewardChosen on.
  kValidationRewardChosen,
  kValidationRewardRejected,
  kValidationRewardMargin,
  kValidationRewardAccuracy,
  kValidationLogpChosen,
  kValidationLogpRejected,
  kValidationKl,
  kValidationChosenNll,
  kTaskExamples,
  kTaskValue,
  kTaskError,
};
constexpr size_t count_of(Metric) { return static_cast<size_t>(Metric::kTaskError) + 1; }

// `key` and `tag` contain {LABEL} where the value of a label belongs.
struct MetricName {
  std::string_view key;         // in metrics.jsonl; "bytes_sent.{axis}" is a member of an object
  std::string_view tag;         // in TensorBoard
  std::string_view prometheus;  // its labels are those in `key` and `tag`, and `run`
  std::string_view help;        // one line, without a period
};

const MetricName& name_of(Metric m);

struct MetricScalar {
  Metric metric = Metric::kLoss;
  double value = 0;
  std::vector<std::pair<std::string, std::string>> labels = {};  // dataset="wiki"

  std::string tag() const;
};

// Returns all figures of a line of metrics.jsonl, except its step.
std::vector<MetricScalar> scalars_of(const StepMetrics& m);
std::vector<MetricScalar> scalars_of(const SourceMetrics& m);
std::vector<MetricScalar> scalars_of(const ValidationMetrics& m);
std::vector<MetricScalar> scalars_of(const TaskMetrics& m);

}  // namespace tessera::train
