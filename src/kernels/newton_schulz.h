// Newton–Schulz iterations, which make matrices orthogonal approximately (Jordan 2024). For each of
// N matrices u [R, C]:
//   X = u / max(|u|, 1e-7)   (Frobenius norm)
//   in each step:  A = X Xᵀ,  B = b A + c A²,  X = a X + B X     (R > C: A = Xᵀ X, X = a X + X B)
// with the coefficients of base/newton_schulz.h. A matrix of zeros stays zero. GEMMs are those of
// the device's library, in the dtype of the matrices, with f32 sums; the norm is f64.
//
// Workspace: [ |u|² | X | Y | A | B | GEMMs ]; X and Y have the size of a matrix, A and B that of
// its smaller side squared.
#pragma once

#include <memory>
#include <vector>

#include "base/dtype.h"
#include "base/newton_schulz.h"
#include "kernels/backend.h"
#include "kernels/kernel.h"
#include "kernels/matmul.h"

namespace tessera::kernels {

struct NewtonSchulzShape {
  int64_t matrices = 1, rows = 0, columns = 0;
  DType dtype = DType::kF32;  // f32 or bf16
  int64_t steps = 5;
  NewtonSchulzCoefficients coefficients = NewtonSchulzCoefficients::kSimple;
  bool operator==(const NewtonSchulzShape&) const = default;
};

// The iterations for matrices of one shape, on either device. run() does not allocate memory. Runs
// must not overlap.
class OrthogonalMatrices final : public PreparedKernel {
 public:
  OrthogonalMatrices(const NewtonSchulzShape& shape, const Backend& backend);

  int64_t workspace_bytes() const override { return bytes_; }
  // Replaces the matrices [N, R, C].
  void run(const Launch& l, void* matrices) const;

 private:
  // The GEMMs of a step. Steps with equal coefficients share them.
  struct Step {
    NewtonSchulzStep numbers;
    std::unique_ptr<Gemm> square;  // B += c A A
  };
  void run_one(const Launch& l, const TensorView& matrix) const;
  const Step& step(int64_t i) const;

  NewtonSchulzShape shape_;
  const KernelTable& kernels_;
  std::unique_ptr<Gemm> gram_, apply_;  // A = X Xᵀ;  Y += B X
  std::vector<Step> steps_;
  int64_t side_;  // the smaller one
  int64_t x_ = 0, y_ = 0, a_ = 0, b_ = 0, scratch_ = 0, bytes_ = 0;
};

}  // namespace tessera::kernels
