// Places the FP8 copies of both operands of a GEMM in its workspace and enqueues their
// quantization:
//
//   [ codes of A | factor, maxima | codes of B | factor, maxima ]      every part 256-byte aligned
//
// cuBLASLt needs k contiguous in both operands ("TN"), so an operand with another order is
// transposed as it is quantized.
#include "kernels/gpu/fp8.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

int64_t rounded_up(int64_t bytes) {
  constexpr int64_t kAlign = 256;
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// The bytes after the codes of an operand: its factor, and the partial maxima.
constexpr int64_t kBesideBytes = 256 + kFp8Partials * 4;

struct Operand {
  const void* data = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, columns = 0;
  bool transposed = false;
  Fp8 format = Fp8::kE4M3;
};

// Writes codes, factor and partial maxima, starting at `place`.
const float* write_one(Stream s, const Operand& o, std::byte* place) {
  const Fp8Format f = format_of(o.format);
  const int64_t n = o.rows * o.columns;
  std::byte* const beside = place + rounded_up(n);
  Fp8Work w;
  w.x = {const_cast<void*>(o.data), o.type};
  w.rows = o.rows;
  w.columns = o.columns;
  w.vector = aligned(o.data) && n % kGroup == 0;
  w.transposed = o.transposed;
  w.codes = reinterpret_cast<uint8_t*>(place);
  w.factor = reinterpret_cast<float*>(beside);
  constexpr int64_t kEach = 2048;  // minimum elements per block
  w.parts = std::clamp<int64_t>((n + kEach - 1) / kEach, 1, kFp8Partials);
  w.partials = reinterpret_cast<uint32_t*>(beside + 256);
  w.mantissa = f.mantissa;
  w.least_exponent = f.least_exponent;
  w.bias = f.bias;
  w.most = f.most;
  launch_fp8(w, s);
  return w.factor;
}

}  // namespace

void check_fp8_product(const MatmulShape& s) {
  constexpr int64_t kMultiple = 16;
  for (const int64_t extent : {s.m, s.n, s.k})
    CHECK(extent % kMultiple == 0, "FP8 GEMM with an extent of {}", extent);
  CHECK(s.fp8_a != Fp8::kNone && s.fp8_b != Fp8::kNone, "GEMM of FP8 codes and numbers");
  CHECK(s.fp8_a != Fp8::kE5M2 || s.fp8_b != Fp8::kE5M2, "FP8 GEMM of E5M2 and E5M2");
  CHECK(s.batch == 1 && s.lda == 0 && s.ldb == 0, "FP8 codes are dense and cannot be batched");
}

int64_t Fp8Operands::bytes() const {
  return rounded_up(shape_.m * shape_.k) + rounded_up(shape_.n * shape_.k) + 2 * kBesideBytes;
}

Fp8Operands::Codes Fp8Operands::write(Stream s, const void* a, const void* b,
                                      void* workspace) const {
  const MatmulShape& p = shape_;
  std::byte* const place_a = element(workspace, DType::kU8, 0);
  std::byte* const place_b = place_a + rounded_up(p.m * p.k) + kBesideBytes;
  Codes c;
  c.a = reinterpret_cast<const uint8_t*>(place_a);
  c.b = reinterpret_cast<const uint8_t*>(place_b);
  c.factor_a = write_one(
      s, {a, p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.transpose_a, p.fp8_a},
      place_a);
  c.factor_b = write_one(
      s, {b, p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, !p.transpose_b, p.fp8_b},
      place_b);
  return c;
}

}  // namespace tessera::kernels::gpu
