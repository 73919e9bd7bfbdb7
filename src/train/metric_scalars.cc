// Lists the name of each figure in each exporter, and returns the figures of a line of
// metrics.jsonl. This is the only place where a figure gets its names: TensorBoard, Prometheus and
// the exporter to Weights & Biases read the table, and a test compares it with docs/metrics.md. {…}
// in a name is filled with a label (a dataset, an axis), which is a part of the tag in TensorBoard
// and a label in Prometheus.
#include "train/metric_scalars.h"

namespace tessera::train {
namespace {

constexpr EnumArray<Metric, MetricName> kNames = {
    MetricName{"tokens", "train/tokens", "tessera_tokens",
               "Tokens with loss since the start of the run"},
    MetricName{"loss", "train/loss", "tessera_loss",
               "Training loss, mean over the tokens of the global batch, natural logarithm"},
    MetricName{"z_loss", "train/z_loss", "tessera_z_loss",
               "z-loss of the logits that is added to the training loss"},
    MetricName{"mtp_loss", "train/mtp_loss", "tessera_mtp_loss",
               "Loss of multi-token prediction, mean over its tokens at all depths"},
    MetricName{"grad_norm", "train/grad_norm", "tessera_grad_norm",
               "2-norm of the gradient before clipping"},
    MetricName{"noise_scale", "train/noise_scale", "tessera_noise_scale",
               "Gradient-noise scale in sequences"},
    MetricName{"learning_rate", "train/learning_rate", "tessera_learning_rate",
               "Learning rate of the last update"},
    MetricName{"loss_scale", "train/loss_scale", "tessera_loss_scale",
               "Loss scale of the next step, with fp16"},
    MetricName{"skipped", "train/skipped", "tessera_step_skipped",
               "1 if the last step overflowed and changed nothing, with fp16"},
    MetricName{"step_s", "throughput/step_s", "tessera_step_seconds", "Wall time of the last step"},
    MetricName{"data_s", "throughput/data_s", "tessera_data_seconds",
               "Part of the last step until the first rank had its batch"},
    MetricName{"tokens_per_s", "throughput/tokens_per_s", "tessera_tokens_per_second",
               "Tokens per second of the last step"},
    MetricName{"model_flops_per_s", "throughput/model_flops_per_s",
               "tessera_model_flops_per_second",
               "Floating-point operations of the model per second and rank"},
    MetricName{"model_flops_share", "throughput/model_flops_share", "tessera_model_flops_ratio",
               "Model FLOPs per second divided by the measured matrix rate"},
    MetricName{"resident_bytes", "memory/resident_bytes", "tessera_resident_memory_bytes",
               "Resident memory of the process of rank 0"},
    MetricName{"communication_hidden_s", "communication/hidden_s",
               "tessera_communication_hidden_seconds",
               "Communication of the last step that overlapped computation, mean over the ranks"},
    MetricName{"communication_exposed_s", "communication/exposed_s",
               "tessera_communication_exposed_seconds",
               "Time of the last step in which computation waited for ranks, mean over the ranks"},
    MetricName{"bubble_share", "communication/bubble_share", "tessera_bubble_ratio",
               "Share of the time of all ranks that was spent waiting for pipeline stages"},
    MetricName{"bytes_sent.{axis}", "communication/bytes_sent/{axis}", "tessera_sent_bytes",
               "Bytes sent by all ranks in the last step"},
    MetricName{"slowest_rank", "communication/slowest_rank", "tessera_slowest_rank",
               "Rank that waited least in the last step"},
    MetricName{"slowest_over_mean", "communication/slowest_over_mean", "tessera_slowest_rank_ratio",
               "Time of the slowest rank without waiting, divided by the mean of all ranks"},
    MetricName{"router_loss", "experts/router_loss", "tessera_router_loss",
               "Losses of the routers that are added to the training loss"},
    MetricName{"busiest_expert", "experts/busiest_expert", "tessera_busiest_expert_ratio",
               "Load of the busiest expert of a layer divided by the mean load"},
    MetricName{"load_entropy", "experts/load_entropy", "tessera_load_entropy_ratio",
               "Entropy of the loads of the experts of a layer divided by that of even loads"},
    MetricName{"dropped_share", "experts/dropped_share", "tessera_dropped_pairs_ratio",
               "Share of the pairs of a token and an expert that are dropped"},
    MetricName{"rewards_chosen", "rewards/chosen", "tessera_reward_chosen",
               "Reward of the chosen answers, mean over the pairs of a step"},
    MetricName{"rewards_rejected", "rewards/rejected", "tessera_reward_rejected",
               "Reward of the rejected answers"},
    MetricName{"rewards_margins", "rewards/margins", "tessera_reward_margin",
               "Difference between the rewards of chosen and rejected answers"},
    MetricName{"rewards_accuracies", "rewards/accuracies", "tessera_reward_accuracy_ratio",
               "Share of pairs whose chosen answer has the larger reward"},
    MetricName{"logps_chosen", "logps/chosen", "tessera_log_probability_chosen",
               "Log-probability of the chosen answers, sum over their tokens"},
    MetricName{"logps_rejected", "logps/rejected", "tessera_log_probability_rejected",
               "Log-probability of the rejected answers"},
    MetricName{"kl", "kl", "tessera_kl_divergence",
               "Estimate of the KL divergence from the reference model, with objective kto"},
    MetricName{"nll_loss", "nll_loss", "tessera_chosen_cross_entropy",
               "Cross-entropy of the chosen answers per token, with objective orpo"},
    MetricName{"source_loss", "train/source_loss/{source}", "tessera_source_loss",
               "Training loss on the samples of a dataset of the blend in one step"},
    MetricName{"source_tokens", "train/source_tokens/{source}", "tessera_source_tokens",
               "Tokens with loss of a dataset of the blend in that step"},
    MetricName{"validation_loss", "validation/loss/{dataset}", "tessera_validation_loss",
               "Validation loss, mean over the tokens of the dataset, natural logarithm"},
    MetricName{"bits_per_byte", "validation/bits_per_byte/{dataset}",
               "tessera_validation_bits_per_byte",
               "Validation loss in bits per byte of the text in UTF-8"},
    MetricName{"validation_rewards_chosen", "validation/rewards/chosen/{dataset}",
               "tessera_validation_reward_chosen",
               "Reward of the chosen answers, mean over the pairs of the dataset"},
    MetricName{"validation_rewards_rejected", "validation/rewards/rejected/{dataset}",
               "tessera_validation_reward_rejected",
               "Reward of the rejected answers of the dataset"},
    MetricName{"validation_rewards_margins", "validation/rewards/margins/{dataset}",
               "tessera_validation_reward_margin",
               "Difference between the rewards of chosen and rejected answers of the dataset"},
    MetricName{"validation_rewards_accuracies", "validation/rewards/accuracies/{dataset}",
               "tessera_validation_reward_accuracy_ratio",
               "Share of pairs of the dataset whose chosen answer has the larger reward"},
    MetricName{"validation_logps_chosen", "validation/logps/chosen/{dataset}",
               "tessera_validation_log_probability_chosen",
               "Log-probability of the chosen answers of the dataset, sum over their tokens"},
    MetricName{"validation_logps_rejected", "validation/logps/rejected/{dataset}",
               "tessera_validation_log_probability_rejected",
               "Log-probability of the rejected answers of the dataset"},
    MetricName{"validation_kl", "validation/kl/{dataset}", "tessera_validation_kl_divergence",
               "Estimate of the KL divergence on the dataset, with objective kto"},
    MetricName{"validation_nll_loss", "validation/nll_loss/{dataset}",
               "tessera_validation_chosen_cross_entropy",
               "Cross-entropy of the chosen answers of the dataset, with objective orpo"},
    MetricName{"examples", "task/{task}/examples", "tessera_task_examples",
               "Evaluated examples of the task"},
    MetricName{"{metric}", "task/{task}/{metric}", "tessera_task_value", "Metric of the task"},
    MetricName{"{metric}_error", "task/{task}/{metric}_error", "tessera_task_standard_error",
               "Standard error of the metric of the task"},
};

void add(const StepCommunication& c, std::vector<MetricScalar>& out) {
  out.push_back({Metric::kHiddenS, c.hidden_s});
  out.push_back({Metric::kExposedS, c.exposed_s});
  out.push_back({Metric::kBubbleShare, c.bubble_share});
  for (size_t i = 0; i < kTrafficAxes.size(); ++i)
    out.push_back({Metric::kBytesSent,
                   static_cast<double>(c.bytes_sent[i]),
                   {{"axis", std::string(kTrafficAxes[i])}}});
  out.push_back({Metric::kSlowestRank, static_cast<double>(c.slowest_rank)});
  out.push_back({Metric::kSlowestOverMean, c.slowest_over_mean});
}

void add(const PreferenceMetrics& m, std::vector<MetricScalar>& out) {
  out.push_back({Metric::kRewardChosen, m.chosen_reward});
  out.push_back({Metric::kRewardRejected, m.rejected_reward});
  out.push_back({Metric::kRewardMargin, m.margin()});
  if (m.has_accuracy) out.push_back({Metric::kRewardAccuracy, m.accuracy});
  if (m.has_log_probs) {
    out.push_back({Metric::kLogpChosen, m.chosen_log_prob});
    out.push_back({Metric::kLogpRejected, m.rejected_log_prob});
  }
  if (m.kl) out.push_back({Metric::kKl, *m.kl});
  if (m.chosen_nll) out.push_back({Metric::kChosenNll, *m.chosen_nll});
}

// Returns the figure of a validation set for a figure of the pairs of a step.
Metric of_validation(Metric m) {
  constexpr auto kFirst = static_cast<int>(Metric::kRewardChosen);
  constexpr auto kOwn = static_cast<int>(Metric::kValidationRewardChosen);
  static_assert(static_cast<int>(Metric::kValidationChosenNll) - kOwn ==
                static_cast<int>(Metric::kChosenNll) - kFirst);
  return static_cast<Metric>(static_cast<int>(m) - kFirst + kOwn);
}

}  // namespace

const MetricName& name_of(Metric m) { return kNames[m]; }

std::string MetricScalar::tag() const {
  std::string text(name_of(metric).tag);
  size_t from = 0;  // labels are in the order of their keys in the text
  for (const auto& [label, own] : labels) {
    const std::string key = "{" + label + "}";
    const size_t at = text.find(key, from);
    if (at == std::string::npos) continue;
    text.replace(at, key.size(), own);
    from = at + own.size();
  }
  return text;
}

std::vector<MetricScalar> scalars_of(const StepMetrics& m) {
  std::vector<MetricScalar> out = {{Metric::kTokens, static_cast<double>(m.tokens)},
                                   {Metric::kLoss, m.loss},
                                   {Metric::kGradNorm, m.grad_norm},
                                   {Metric::kLearningRate, m.learning_rate},
                                   {Metric::kStepS, m.step_s},
                                   {Metric::kDataS, m.data_s}};
  if (m.resident_bytes > 0)
    out.push_back({Metric::kResidentBytes, static_cast<double>(m.resident_bytes)});
  out.push_back({Metric::kTokensPerS, m.tokens_per_s});
  out.push_back({Metric::kFlopsPerS, m.model_flops_per_s});
  out.push_back({Metric::kFlopsShare, m.model_flops_share});
  if (m.communication) add(*m.communication, out);
  if (m.loss_scale) {
    out.push_back({Metric::kLossScale, m.loss_scale->scale});
    out.push_back({Metric::kSkipped, m.loss_scale->skipped ? 1.0 : 0.0});
  }
  if (m.z_loss) out.push_back({Metric::kZLoss, *m.z_loss});
  if (m.mtp_loss) out.push_back({Metric::kMtpLoss, *m.mtp_loss});
  if (m.noise_scale) out.push_back({Metric::kNoiseScale, *m.noise_scale});
  if (m.preference) add(*m.preference, out);
  if (m.router) {
    out.push_back({Metric::kRouterLoss, m.router->loss});
    out.push_back({Metric::kBusiestExpert, m.router->busiest});
    out.push_back({Metric::kLoadEntropy, m.router->entropy});
    if (m.router->dropped) out.push_back({Metric::kDroppedShare, *m.router->dropped});
  }
  return out;
}

std::vector<MetricScalar> scalars_of(const SourceMetrics& m) {
  return {{Metric::kSourceLoss, m.loss, {{"source", m.source}}},
          {Metric::kSourceTokens, static_cast<double>(m.tokens), {{"source", m.source}}}};
}

std::vector<MetricScalar> scalars_of(const ValidationMetrics& m) {
  std::vector<MetricScalar> out = {{Metric::kValidationLoss, m.validation_loss}};
  if (m.bits_per_byte) out.push_back({Metric::kBitsPerByte, *m.bits_per_byte});
  if (m.preference) {
    std::vector<MetricScalar> of_step;
    add(*m.preference, of_step);
    for (const MetricScalar& s : of_step) out.push_back({of_validation(s.metric), s.value});
  }
  for (MetricScalar& s : out) s.labels = {{"dataset", m.name}};
  return out;
}

std::vector<MetricScalar> scalars_of(const TaskMetrics& m) {
  std::vector<MetricScalar> out = {
      {Metric::kTaskExamples, static_cast<double>(m.examples), {{"task", m.task}}}};
  for (const TaskMetrics::Figure& f : m.figures) {
    out.push_back({Metric::kTaskValue, f.value, {{"task", m.task}, {"metric", f.name}}});
    out.push_back({Metric::kTaskError, f.error, {{"task", m.task}, {"metric", f.name}}});
  }
  return out;
}

}  // namespace tessera::train
