// The file metrics.jsonl: the measurements of a run, one JSON object per line, in the order of
// steps.
//
//   {"step":7,"tokens":14336,"loss":…,"grad_norm":…,"learning_rate":…,"step_s":…,
//    "data_s":…,"tokens_per_s":…,"model_flops_per_s":…,"model_flops_share":…}   per recorded step
//    "resident_bytes":… after "data_s" if it is known
//    with several ranks also "communication_hidden_s", "communication_exposed_s", "bubble_share",
//    "bytes_sent":{"data":…,"tensor":…,"pipeline":…,"several":…}, "slowest_rank",
//    "slowest_over_mean"; with fp16 also "loss_scale" and "skipped"; with experts also
//    "router_loss", "busiest_expert" and "load_entropy", and "dropped_share" if the experts have a
//    capacity; with pairs of answers also
//    "rewards_chosen", "rewards_rejected", "rewards_margins", "rewards_accuracies", "logps_chosen",
//    "logps_rejected", "kl", "nll_loss"; "z_loss", "mtp_loss" and "noise_scale" if the run has them
//   {"step":8,"name":"wiki","validation_loss":…,"bits_per_byte":…}   per validation set; of pairs
//    of answers, instead of "bits_per_byte" the keys of a step with "validation_" in front
//   {"step":8,"source":"wiki","source_loss":…,"source_tokens":…}   per dataset of a blend
//   {"step":8,"task":"piqa","examples":…,"accuracy":…,"accuracy_error":…}   per task
//
// Doubles are written in the shortest form that reads back as the same double; NaN and infinities
// become null. Each line is one write(2) at the end of the file, so a killed process leaves at most
// one incomplete line at the end, which cut_back() removes. Writing the file is a best effort
// (base/append_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "train/step_communication.h"

namespace tessera::train {

struct LossScaleMetrics {
  double scale = 1;      // for the next step
  bool skipped = false;  // this step overflowed and updated nothing
};

// Figures of the routers; see RouterResult.
struct RouterMetrics {
  double loss = 0, busiest = 0, entropy = 0;
  std::optional<double> dropped = {};  // with model.router.capacity_factor
};

// Figures of a loss over pairs of answers, means over the pairs of a step. Rewards are those of the
// objective (docs/objectives.md). For kto, which has single answers, figures of chosen answers are
// means over desirable answers, figures of rejected answers over undesirable ones.
struct PreferenceMetrics {
  double chosen_reward = 0, rejected_reward = 0;
  double accuracy = 0;  // share of pairs whose chosen answer has the larger reward; none for kto
  double chosen_log_prob = 0,
         rejected_log_prob = 0;           // sums over the tokens; none for reward models
  std::optional<double> kl = {};          // with kto
  std::optional<double> chosen_nll = {};  // with orpo
  bool has_accuracy = true, has_log_probs = true;

  double margin() const { return chosen_reward - rejected_reward; }
};

// Returns the figures that the objective has, with their keys in a line of a step.
std::vector<std::pair<std::string, double>> figures_of(const PreferenceMetrics& m);
// Returns "accuracy 0.750, margin 0.312", without an accuracy for kto.
std::string text_of(const PreferenceMetrics& m);

struct StepMetrics {
  int64_t step = 0;            // from 1
  int64_t tokens = 0;          // loss tokens since the start of the run, including this step
  double loss = 0;             // mean over the loss tokens of the global batch, natural logarithm
  double grad_norm = 0;        // before clipping
  double learning_rate = 0;    // used in this step's update
  double step_s = 0;           // wall time of the step
  double data_s = 0;           // the part of it until the first rank had its batch
  int64_t resident_bytes = 0;  // memory of rank 0's process after the step; 0: unknown
  double tokens_per_s = 0;
  double model_flops_per_s = 0;  // mean per rank of the model's FLOPs (6 N plus attention)
  double model_flops_share = 0;  // the same, divided by the measured matrix rate
  std::optional<StepCommunication> communication = {};  // none with a single rank
  std::optional<LossScaleMetrics> loss_scale = {};      // with fp16
  std::optional<RouterMetrics> router = {};             // with experts
  std::optional<double> z_loss = {};                    // with loss.z_loss
  std::optional<double> mtp_loss = {};                  // with model.mtp_depth
  std::optional<double> noise_scale = {};            // in sequences, at the steps that measure it
  std::optional<PreferenceMetrics> preference = {};  // with objectives other than sft
};

struct ValidationMetrics {
  int64_t step = 0;
  std::string name;                                  // name of the validation set
  double validation_loss = 0;                        // mean over its tokens or pairs
  std::optional<double> bits_per_byte = {};          // per byte of its text in UTF-8, with tokens
  std::optional<PreferenceMetrics> preference = {};  // with pairs of answers
};

// The training loss of a step on the samples of one dataset of a blend.
struct SourceMetrics {
  int64_t step = 0;
  std::string source;  // name of the dataset
  double loss = 0;     // mean over its loss tokens in the step, before the update
  int64_t tokens = 0;  // their number
};

std::string to_json_line(const StepMetrics& m);  // without the newline
std::string to_json_line(const ValidationMetrics& m);
std::string to_json_line(const SourceMetrics& m);

struct ValidationLoss {
  int64_t step = 0;
  std::string name;
  double loss = 0;
};

struct CutBack {
  int64_t removed = 0;                      // lines of later steps, and an incomplete last line
  int64_t damaged = 0;                      // lines that were moved to `damaged_file`
  std::string problem;                      // describes the first damaged line, with file and line
  Path damaged_file;                        // a new file
  std::set<std::string> names_at_step;      // validation sets and tasks with a line of step `step`
  std::vector<ValidationLoss> validations;  // the losses of the lines that stay
};

// Removes the lines of steps > `step` and an incomplete last line. Lines that are not a JSON object
// with an integer "step" are moved to a new file PATH.damaged (PATH.damaged.2, …). A new file
// replaces the old one; on a full disk the old one is truncated, if only its end must be removed.
// Does nothing if there is no file. Throws Error if the file cannot be read or changed.
CutBack cut_back(const Path& path, int64_t step);

}  // namespace tessera::train
