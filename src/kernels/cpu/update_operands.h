// Operands of the vectorized optimizer updates.
#pragma once

#include "kernels/cpu/operand.h"
#include "kernels/update.h"

namespace tessera::kernels {

// The values of UpdateConstants and UpdateNumbers.
struct UpdateStep {
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  double learning_rate = 0, scale = 1, share = 0;
  int64_t step = 1;
};
UpdateStep step_of(const UpdateConstants& c, const UpdateNumbers& n);

// Moments in 8 bits (base/moment_code.h), or none.
struct CodedMoments {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  explicit operator bool() const { return codes != nullptr; }
};

struct UpdateOperands {
  OptimizerKind rule = OptimizerKind::kAdamW;
  Sink weights, m, v;
  CodedMoments coded_m, coded_v;  // in place of m and v
  Source gradient;
  Sink weights_low;
  bool stochastic = false;
  uint64_t lane = 0;  // Philox lane: the step
  float scale = 1;
  float learning_rate = 0;
  float beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1;
  // With both bias corrections of AdamW: root epsilon, and root learning rate / (1 - beta1^t),
  // where root = sqrt(1 - beta2^t).
  float epsilon = 0, step_size = 0;
  float keep = 1;  // 1 - learning rate * weight decay
  float weight_decay = 0;
  float share = 0;      // only schedule_free, where step_size is root learning rate
  int64_t columns = 0;  // only Adafactor, as are the next fields
  const float *row_scales = nullptr, *column_scales = nullptr;
  float update_clip = 1;
  // Only Muon, as are the next fields: the directions of the elements from directions_from on.
  Sink directions = {};
  int64_t directions_from = 0;
  float direction_rate = 0;  // learning rate * scale
  bool nesterov = false;
  float row_factor = 1;  // multiplies the weights after the update (RowClip)
};

// Elements [begin, end) with the constants of their range. `element` is the index of the first one
// in its weight.
struct UpdateRun {
  int64_t begin = 0, end = 0;
  bool decay = false;
  uint64_t key = 0;
  int64_t element = 0;
};

// Returns the operands after checking that all have the length of the weights.
UpdateOperands operands_of(const Update& u, const UpdateStep& s, const char* name);

// Calls f for parts of all ranges, on at most `threads` threads. With moments in 8 bits, each part
// begins with a block of them.
void sweep_runs(std::span<const UpdateRange> ranges,
                void (*f)(const UpdateOperands&, const UpdateRun&), const UpdateOperands& operands,
                int threads);

}  // namespace tessera::kernels
