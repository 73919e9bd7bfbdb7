// metrics.jsonl: what a run measured, one JSON object a line, in the order of the steps.
//
//   {"step":7,"tokens":14336,"loss":…,"grad_norm":…,"learning_rate":…,"step_s":…,
//    "data_s":…,"tokens_per_s":…,"model_flops_per_s":…,"model_flops_share":…}  one line a step
//    "resident_bytes":… after "data_s" where it is known
//    with several ranks also "communication_hidden_s", "communication_exposed_s", "bubble_share",
//    "bytes_sent":{"data":…,"tensor":…,"pipeline":…,"several":…}, "slowest_rank",
//    "slowest_over_mean"
//                                  … ,"loss_scale":…,"skipped":…  of fp16
//   {"step":8,"name":"wiki","validation_loss":…,"bits_per_byte":…}   one line a set and validation
//   {"step":8,"task":"piqa","examples":…,"accuracy":…,"accuracy_error":…}   a task and evaluation
//
// Doubles are written in the shortest form that reads back as the same double; NaN and infinities
// become null. Each line is one write(2) at the end of the file, so that a killed process leaves
// at most one torn line, the last, and cut_back() drops it. The file is written as a best effort
// (base/append_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/file.h"
#include "train/step_communication.h"

namespace tessera::train {

struct LossScaleMetrics {
  double scale = 1;      // of the next step
  bool skipped = false;  // this one overflowed and changed nothing
};

struct StepMetrics {
  int64_t step = 0;            // from 1
  int64_t tokens = 0;          // loss tokens since the start of the run, this step's included
  double loss = 0;             // mean over the loss tokens of the global batch, natural logarithm
  double grad_norm = 0;        // before clipping
  double learning_rate = 0;    // that this step's update used
  double step_s = 0;           // wall time of the step
  double data_s = 0;           // of it, until the first rank had its batch
  int64_t resident_bytes = 0;  // memory of rank 0's process after the step; 0: not known
  double tokens_per_s = 0;
  double model_flops_per_s = 0;  // of all ranks' shares the mean, by 6 N and attention
  double model_flops_share = 0;  // the same over the machine's measured matrix rate
  std::optional<StepCommunication> communication = {};  // nothing: there is one rank
  std::optional<LossScaleMetrics> loss_scale = {};      // of fp16
};

struct ValidationMetrics {
  int64_t step = 0;
  std::string name;            // of the validation set
  double validation_loss = 0;  // mean over its tokens
  double bits_per_byte = 0;    // of its text in UTF-8
};

std::string to_json_line(const StepMetrics& m);  // without the line's end
std::string to_json_line(const ValidationMetrics& m);

struct CutBack {
  int64_t removed = 0;                  // lines of later steps, and a torn last line
  int64_t damaged = 0;                  // lines that were moved to `damaged_file`
  std::string problem;                  // of the first of them, with file and line
  Path damaged_file;                    // a new file
  std::set<std::string> names_at_step;  // validation sets and tasks with a line of step `step`
};

// Leaves only whole lines of steps <= `step` (0: none). Lines that are not a JSON object with an
// integer "step" are moved to a new file PATH.damaged (PATH.damaged.2, …). Shortens the file, or
// writes a new one and renames it; does nothing where no line has to be removed or there is no
// file. Throws Error if the file cannot be read or changed.
CutBack cut_back(const Path& path, int64_t step);

}  // namespace tessera::train
