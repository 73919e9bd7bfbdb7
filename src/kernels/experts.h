// The experts of a mixture of experts (Shazeer et al. 2017): gated feed-forward layers. Each token
// passes through the experts that the router chose for it. The workspace depends on shapes only,
// not on the choices.
//
//   p = x_t up_eᵀ (+ up_bias_e) [I, 2],   h = gate(p[·, 0], p[·, 1]) [I],
//   y_t = Σ_j weights_tj · h down_eᵀ
//
// for each choice j of token t, with the weights of expert choice[t, j]. Experts of other ranks and
// dropped pairs, whose choice is -1, are skipped: they add nothing to y, and their d_weights is 0.
//
// The pairs of a token and a choice are sorted by expert, then by token, and processed in tiles of
// rows of one expert. Sums have a fixed order: for a token by ascending expert, for the gradient of
// a weight by tiles in the order of tokens.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "kernels/gated_activation.h"
#include "kernels/kernel.h"
#include "tensor/cpu_features.h"

namespace tessera::kernels {

struct ExpertsShape {
  int64_t tokens = 0, hidden = 0, inner = 0;  // N, H, I
  int64_t experts = 0, chosen = 0;            // E on this rank, K per token
  int64_t all_experts = 0;                    // experts of the model
  DType dtype = DType::kF32;                  // x, weights, y, and the gradients of x and y
  DType sums = DType::kF32;                   // gradients of the weights
  GateKind gate = GateKind::kSilu;
  bool pairs = false;     // the forward writes p, and the gradient reads it
  bool gradient = false;  // run() computes the gradient
  bool operator==(const ExpertsShape&) const = default;
};

struct ExpertsOperands {
  const void* x = nullptr;          // [N, H]
  const int32_t* choice = nullptr;  // [N, K], ascending in each row, except for dropped pairs (-1)
  const float* weights = nullptr;   // [N, K]
  const void* up = nullptr;         // [E, I, 2, H]
  const void* down = nullptr;       // [E, H, I]
  int64_t first = 0;                // index of this rank's first expert
  const void* up_bias = nullptr;    // [E, I, 2], or none
  void* pairs = nullptr;            // [N, K, I, 2]; of dropped pairs written as 0; of
                                    // other ranks' experts not accessed
  void* y = nullptr;                // [N, H]  written
  // Only for the gradient, instead of y:
  const void* dy = nullptr;    // [N, H]
  void* dx = nullptr;          // [N, H]  written
  float* d_weights = nullptr;  // [N, K]  written
  void* d_up = nullptr;        // [E, I, 2, H]  added to, or written if fresh; or none
  void* d_down = nullptr;      // [E, H, I]  likewise
  void* d_up_bias = nullptr;   // [E, I, 2]  likewise
  bool fresh_up = false, fresh_down = false, fresh_up_bias = false;
};

// Experts of one shape, on either device. run() does not allocate memory. Runs must not overlap.
class Experts : public PreparedKernel {
 public:
  virtual void run(const Launch& l, const ExpertsOperands& operands) const = 0;
};

class CpuExperts final : public Experts {
 public:
  CpuExperts(const ExpertsShape& shape, const CpuFeatures& cpu, int threads);
  ~CpuExperts() override;

  int64_t workspace_bytes() const override;
  void run(const Launch& l, const ExpertsOperands& operands) const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace tessera::kernels
