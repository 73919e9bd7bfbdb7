// Experts with low-rank adapters (Hu et al. 2021), on either device:
//
//   up'_e = up_e + scale · up_b_e up_a_e        for up, down or both
//
// A batched GEMM per matrix computes up' or down' into the workspace, rounded once to the dtype of
// the matrices; then the experts (kernels/experts.h) read it. The gradient accumulates dup' in the
// workspace in f32 over all rows of an expert, rounds it to the dtype of the matrices, and adds
//
//   d_up_b_e += scale · dup'_e up_a_eᵀ          d_up_a_e += scale · up_b_eᵀ dup'_e
//
// Workspace: [ experts, then GEMMs | up' | down' | dup' f32 | ddown' f32 ].
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/matmul.h"

namespace tessera::kernels {

struct AdaptedExpertsShape {
  ExpertsShape experts;
  int64_t up_rank = 0, down_rank = 0;  // 0: that matrix has no adapter
  float scale = 1;
  bool trained = false;  // the gradient also computes the gradients of the adapters
  bool operator==(const AdaptedExpertsShape&) const = default;
};

// The adapter of the experts' up or down matrices [E, outputs, inputs], and its gradients.
struct ExpertAdapterOperands {
  const void* a = nullptr;  // [E, R, inputs]
  const void* b = nullptr;  // [E, outputs, R]
  void* d_a = nullptr;      // [E, R, inputs]  added to, or written if fresh
  void* d_b = nullptr;      // [E, outputs, R]  likewise
  bool fresh_a = false, fresh_b = false;
};

// Experts of one shape with adapters. run() does not allocate memory. Runs must not overlap.
class AdaptedExperts final : public PreparedKernel {
 public:
  AdaptedExperts(const AdaptedExpertsShape& shape, const Backend& backend);

  int64_t workspace_bytes() const override { return bytes_; }
  // The weight gradients of `experts` (d_up, d_down, d_up_bias) must be null.
  void run(const Launch& l, const ExpertsOperands& experts, const ExpertAdapterOperands& up,
           const ExpertAdapterOperands& down) const;

 private:
  // One of the two matrices of the experts, if it has an adapter.
  struct Matrix {
    bool adapted() const { return merge != nullptr; }
    Shape shape;                            // [E, outputs, inputs]
    std::unique_ptr<Gemm> merge, d_a, d_b;  // the last two: only if trained
    int64_t at = 0, gradient_at = 0;        // in the workspace
  };
  Matrix matrix(int64_t outputs, int64_t inputs, int64_t rank, const Backend& backend) const;
  TensorView merged(const Launch& l, const Matrix& m) const;
  TensorView gradient(const Launch& l, const Matrix& m) const;
  const void* merge(const Launch& l, const Matrix& m, const void* w,
                    const ExpertAdapterOperands& adapter) const;
  void add_gradients(const Launch& l, const Matrix& m, const ExpertAdapterOperands& adapter) const;

  AdaptedExpertsShape shape_;
  const KernelTable& kernels_;
  std::unique_ptr<Experts> experts_;
  Matrix up_, down_;
  int64_t bytes_ = 0;
};

}  // namespace tessera::kernels
