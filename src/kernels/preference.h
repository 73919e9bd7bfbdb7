// Losses of preferences: sums over the tokens of answers, and the loss of each pair of answers. The
// formulas are in ir/ops/preference.h.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// sums[b, a] = (sum_t x[b, t], number of terms) over the positions with answers[b, t] = a, in f64
// and in the order of positions. log_probs: x is [B, T, 2] and a term is x_1 - ln x_0; otherwise x
// is [B, T, 1].
struct AnswerSumsArgs {
  bool log_probs = true;
  TensorView x;        // f32
  TensorView answers;  // [B, T] i32: 0, 1, or negative for none
  TensorView sums;     // [B, 2, 2] f64  written
};
void launch(Cpu, const Launch&, const AnswerSumsArgs&);
void launch(Gpu, const Launch&, const AnswerSumsArgs&);

// dx of d_sums[b, a, 0], the gradient of a sum: (-d / x_0, d) with log_probs, otherwise d; 0 at
// positions without an answer.
struct AnswerSumsGradArgs {
  bool log_probs = true;
  TensorView x, answers;
  TensorView d_sums;  // [B, 2, 2] f64
  TensorView dx;      // like x  written
};
void launch(Cpu, const Launch&, const AnswerSumsGradArgs&);
void launch(Gpu, const Launch&, const AnswerSumsGradArgs&);

// In the order of tessera::PreferenceKind.
enum class PreferenceLossKind : uint8_t { kDpo, kIpo, kOrpo, kKto, kSimpo, kReward };

struct PreferenceForm {
  PreferenceLossKind kind = PreferenceLossKind::kDpo;
  bool mean = false;
  double beta = 0, gamma = 0, label_smoothing = 0;
  double desirable_weight = 1, undesirable_weight = 1;
};

// The figures of a report, from ReportSlot::kChosenReward on.
constexpr int kPreferenceFigures = 6;

struct PreferenceLossArgs {
  PreferenceForm form;
  TensorView sums;                     // [B, 2, 2] f64
  TensorView references;               // [B, 3] f64
  double* report = nullptr;            // [0] += losses, [1] += pairs; none: another rank does
  double* figures = nullptr;           // [kPreferenceFigures] += figures; none with `report`
  const double* loss_scale = nullptr;  // in the kernel's device memory; or none
  TensorView d_sums;                   // [B, 2, 2] f64  written; empty: no gradient
};
void launch(Cpu, const Launch&, const PreferenceLossArgs&);
void launch(Gpu, const Launch&, const PreferenceLossArgs&);

}  // namespace tessera::kernels
