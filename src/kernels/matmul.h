// General matrix products: C = alpha * op(A) * op(B), or C += alpha * op(A) * op(B).
//
//   op(A) is [m, k], op(B) is [k, n], C is [m, n]; op(X) = X^T where transpose_x is set, so A lies
//   in memory as [m, k] (or [k, m] transposed), B as [k, n] (or [n, k] transposed), each row-major
//   with the given distance between rows. A distance larger than a row addresses a slice of a
//   packed tensor, for instance q inside qkv.
//
// The products of a linear layer y = x W^T, x [N, K], W [M, K], y [N, M]:
//   forward          m=N n=M k=K  transpose_b            A = x   B = W   C = y
//   input gradient   m=N n=K k=M                         A = dy  B = W   C = dx
//   weight gradient  m=M n=K k=N  transpose_a            A = dy  B = x   C = dW (accumulate, f32)
//
// Sums are f32 whatever the types. A and B are f32, bf16 or f16 (two different types: right, but
// slow); C is f32, bf16 or f16, rounded once, from the f32 sum. Where the processor multiplies no
// bf16 the operands are widened into the workspace and multiplied in f32: the rounding points stay
// the same.
//
// A product is prepared once, for one shape; run() allocates no memory for tensors. One run at a
// time.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "kernels/fp8.h"
#include "kernels/kernel.h"
#include "tensor/cpu_features.h"

namespace tessera::kernels {

struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // C += …; of 16 bits, C is widened, added to and rounded once
  DType a = DType::kF32, b = DType::kF32, c = DType::kF32;
  int64_t batch = 1;                  // that many products, `stride_…` elements apart
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements between rows; 0: dense
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between products; 0: dense
  bool packed_b = false;                             // run() takes B as pack() wrote it
  float alpha = 1.0f;
  // Operands are rounded so before they are multiplied (kernels/fp8.h): both or none; then they are
  // dense, one product, and not packed.
  Fp8 fp8_a = Fp8::kNone, fp8_b = Fp8::kNone;
  bool operator==(const MatmulShape&) const = default;
};

struct MatmulOperands {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  // Where the shape accumulates: C is written, whatever it held. For the first of the
  // micro-batches, so that nobody has to zero a gradient.
  bool fresh = false;
};

// A product of a shape, on either device.
class Product : public PreparedKernel {
 public:
  // Packing B pays where it is used often, as weights are: run() then reads B in the library's own
  // order. 0 where it does not pay, or with a batch: leave packed_b unset there.
  virtual int64_t packed_bytes() const = 0;
  virtual void pack(const void* b, void* packed) const = 0;
  virtual void run(const Launch& l, const MatmulOperands& operands) const = 0;
};

class Matmul final : public Product {
 public:
  // `threads` is how many run() uses. Throws Error if the library cannot make this product.
  Matmul(const MatmulShape& shape, const CpuFeatures& cpu, int threads);
  ~Matmul() override;
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  int64_t workspace_bytes() const override;
  int64_t packed_bytes() const override;
  void pack(const void* b, void* packed) const override;
  void run(const Launch& l, const MatmulOperands& operands) const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

// The rate that products of this type reach, in operations (two a multiply-add) a second: the best
// of a few shapes around 2048^3, measured now (0.3 s at most). This is the "matrix rate" that a
// run's speed is shown as a share of. The caller keeps the answer.
double measure_matrix_rate(DType type, const CpuFeatures& cpu, int threads);

}  // namespace tessera::kernels
