// GEMM: C = alpha * op(A) * op(B), or C += alpha * op(A) * op(B).
//
//   op(A) is [m, k], op(B) is [k, n], C is [m, n]; op(X) = X^T if transpose_x is set, so A is
//   stored as [m, k] (or [k, m] if transposed), B as [k, n] (or [n, k] if transposed), each
//   row-major with the given distance between rows. A distance larger than a row addresses a slice
//   of a packed tensor, for instance q inside qkv.
//
// The GEMMs of a linear layer y = x W^T, x [N, K], W [M, K], y [N, M]:
//   forward          m=N n=M k=K  transpose_b            A = x   B = W   C = y
//   input gradient   m=N n=K k=M                         A = dy  B = W   C = dx
//   weight gradient  m=M n=K k=N  transpose_a            A = dy  B = x   C = dW (accumulate, f32)
//
// Sums are f32 for all types. A and B are f32, bf16 or f16 (two different types are supported, but
// slow). C is f32, bf16 or f16, rounded once from the f32 sum. On a processor without bf16
// multiplication, the operands are widened into the workspace and multiplied in f32; the rounding
// points stay the same.
//
// A GEMM is prepared once, for one shape. run() does not allocate memory for tensors; runs must not
// overlap.
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
  bool accumulate = false;  // C += …; a 16-bit C is widened, added to and rounded once
  DType a = DType::kF32, b = DType::kF32, c = DType::kF32;
  int64_t batch = 1;                  // number of GEMMs, at distances of `stride_…` elements
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements between rows; 0: dense
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between GEMMs; 0: dense
  bool packed_b = false;                             // run() reads B as pack() wrote it
  float alpha = 1.0f;
  // Operands are quantized to these formats before they are multiplied (kernels/fp8.h): both or
  // none. With FP8, operands must be dense and not packed, and batch must be 1.
  Fp8 fp8_a = Fp8::kNone, fp8_b = Fp8::kNone;
  bool operator==(const MatmulShape&) const = default;
};

struct MatmulOperands {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  // If the shape accumulates: C is written instead of added to. Used for the first micro-batch, so
  // gradients need not be zeroed.
  bool fresh = false;
};

// A GEMM of one shape, on either device.
class Gemm : public PreparedKernel {
 public:
  // Returns the bytes of a packed B. Packing pays if B is used often, as weights are: run() then
  // reads B in the library's order. 0 if packing does not pay, or with a batch: leave packed_b
  // unset then.
  virtual int64_t packed_bytes() const = 0;
  virtual void pack(const void* b, void* packed) const = 0;
  virtual void run(const Launch& l, const MatmulOperands& operands) const = 0;
};

class Matmul final : public Gemm {
 public:
  // run() uses `threads` threads. Throws Error if the library cannot prepare this GEMM.
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

// Measures the rate of GEMMs of this type, in operations (two per multiply-add) per second: the
// best of a few runs with 4.3 GFLOP each (at most 0.3 s in all). This is the "matrix rate" that the
// speed of a run is compared with. The result is not cached.
double measure_matrix_rate(DType type, const CpuFeatures& cpu, int threads);

}  // namespace tessera::kernels
