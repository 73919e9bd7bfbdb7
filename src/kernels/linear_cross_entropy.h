// The head of a language model and its loss in one op: logits z = x W^T, their cross-entropy with
// the labels (see kernels/cross_entropy.h) and the gradients, by chunks of tokens. Logits are held
// for one chunk only (Wijmans et al. 2024, "Cut your losses", is the same idea by tiles).
//
//   z = x W^T          [chunk, V]  f32
//   dz                 [chunk, V]  of x's type: in bf16 the gradient of the logits is rounded once
//   dx = dz W          [N, D]      written, of x's type
//   dW += dz^T x       [V, D]      f32, or 16 bits: then rounded once per chunk
//
// Gradients are those of the sum of the losses, times gradient_scale.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "kernels/kernel.h"
#include "tensor/cpu_features.h"

namespace tessera::kernels {

struct LinearCrossEntropyShape {
  int64_t tokens = 0, hidden = 0, vocabulary = 0;  // N, D, V
  DType dtype = DType::kF32;                       // x, W and dx: f32, bf16 or f16
  DType sums = DType::kF32;                        // dW
  bool gradient = true;                            // without: the loss only (validation)
  float soft_cap = 0;                              // soft cap of the logits; 0: none
  int64_t chunk = 0;                               // tokens at a time; 0: chosen by measured rules
  bool operator==(const LinearCrossEntropyShape&) const = default;
};

struct LinearCrossEntropyOperands {
  const void* x = nullptr;          // [N, D]
  const void* weight = nullptr;     // [V, D]
  const int32_t* labels = nullptr;  // [N]: 0 … V-1, or kIgnoredLabel; CHECKed
  double* report = nullptr;         // [0] += loss, [1] += tokens that count; or none
  void* dx = nullptr;               // [N, D]  written
  void* dweight = nullptr;          // [V, D]  added to, or written where `fresh`; or none
  bool fresh = false;               // dweight holds nothing yet
  float gradient_scale = 1;
  const double* loss_scale = nullptr;  // where the kernel runs: times gradient_scale; or none
};

// A prepared LM head for one shape, on either device. run() allocates nothing and is not reentrant.
class LmHead : public PreparedKernel {
 public:
  virtual void run(const Launch& l, const LinearCrossEntropyOperands& operands) const = 0;
};

class LinearCrossEntropy final : public LmHead {
 public:
  LinearCrossEntropy(const LinearCrossEntropyShape& shape, const CpuFeatures& cpu, int threads);
  ~LinearCrossEntropy() override;
  LinearCrossEntropy(LinearCrossEntropy&&) noexcept;
  LinearCrossEntropy& operator=(LinearCrossEntropy&&) noexcept;

  int64_t chunk() const;  // tokens at a time
  int64_t workspace_bytes() const override;
  void run(const Launch& l, const LinearCrossEntropyOperands& operands) const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace tessera::kernels
