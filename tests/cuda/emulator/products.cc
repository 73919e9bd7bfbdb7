// Replaces cuBLASLt: GEMMs in plain loops. Each overwrites its workspace, as cuBLASLt may, and
// requires the documented alignment.
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "gpu_runtime.h"
#include "kernels/cpu/operand.h"
#include "kernels/gpu/fp8.h"
#include "kernels/gpu_products.h"

namespace tessera::kernels {

struct GpuBlas::Handle {};
GpuBlas::GpuBlas(bool tf32) : handle_(std::make_unique<Handle>()), tf32_(tf32) {
  if (cuda_emulator::is_forked())
    throw Error("cublasLtCreate failed: a forked process cannot use the device of its parent.");
}
GpuBlas::~GpuBlas() = default;
int64_t GpuBlas::version() const { return 0; }

namespace {

// Bytes that every GEMM overwrites in addition to its codes.
constexpr int64_t kWorkspaceBytes = 300;

float number_of(uint8_t code, Fp8 format) {
  const Fp8Format f = format_of(format);
  const int exponent = (code & 0x7f) >> f.mantissa, fraction = code & ((1 << f.mantissa) - 1);
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(fraction), f.least_exponent - f.mantissa)
                    : std::ldexp(static_cast<float>(fraction + (1 << f.mantissa)),
                                 exponent - f.bias - f.mantissa);
  return code & 0x80 ? -magnitude : magnitude;
}

}  // namespace

struct GpuMatmul::Plan {
  MatmulShape s;
  // Their first word: whether sums begin with the last term. `fresh` is of runs that write C
  // although the shape accumulates.
  AlgorithmWords algorithm{}, fresh{};

  // Two algorithms are proposed; the clock alone says which is faster.
  void choose(const GpuBlas& blas) {
    KernelChoices* const choices = blas.choices();
    if (choices == nullptr) return;
    choose(*choices, blas);
    fresh = algorithm;
    MatmulShape writes = s;
    writes.accumulate = false;
    if (const GemmChoice* known = choices->find(writes)) fresh = known->algorithm;
  }
  void choose(KernelChoices& choices, const GpuBlas& blas) {
    if (const GemmChoice* known = choices.find(s)) {
      algorithm = known->algorithm;
    } else if (const auto& now_s = blas.now_s()) {
      const FastestGemm fastest = fastest_gemm(2, [&](size_t) {
        const double began = now_s();
        return now_s() - began + 1e-9;
      });
      algorithm[0] = fastest.index;
      choices.add(s, {algorithm, 0, fastest.seconds});
    }
  }

  Plan(const MatmulShape& shape, const GpuBlas& blas) : s(shape) {
    choose(blas);
    CHECK(s.a == s.b && !s.packed_b, "a product that CUDA does not make");
    if (s.fp8_a != Fp8::kNone) gpu::check_fp8_product(s);
    if (s.lda == 0) s.lda = s.transpose_a ? s.m : s.k;
    if (s.ldb == 0) s.ldb = s.transpose_b ? s.k : s.n;
    if (s.ldc == 0) s.ldc = s.n;
    if (s.stride_a == 0) s.stride_a = s.lda * (s.transpose_a ? s.k : s.m);
    if (s.stride_b == 0) s.stride_b = s.ldb * (s.transpose_b ? s.n : s.k);
    if (s.stride_c == 0) s.stride_c = s.ldc * s.m;
  }
  void run(const void* a, const void* b, void* c, bool add) const {
    for (int64_t z = 0; z < s.batch; ++z)
      run_one(Source(a, s.a) + z * s.stride_a, Source(b, s.b) + z * s.stride_b,
              Sink(c, s.c) + z * s.stride_c, add);
  }
  void run_one(Source a, Source b, Sink c, bool add) const {
    const bool backwards = (add == s.accumulate ? algorithm : fresh)[0] != 0;
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (int64_t n = 0; n < s.k; ++n) {
          const int64_t k = backwards ? s.k - 1 - n : n;
          sum += a[s.transpose_a ? k * s.lda + i : i * s.lda + k] *
                 b[s.transpose_b ? j * s.ldb + k : k * s.ldb + j];
        }
        write_sum(c, i * s.ldc + j, sum, add);
      }
  }
  void write_sum(Sink c, int64_t at, float sum, bool add) const {
    const float before = add ? Source(c)[at] : 0.0f;
    c.set(at, before + s.alpha * sum);
  }
  // Of codes with k contiguous.
  void run_codes(const gpu::Fp8Operands::Codes& x, void* c, bool add) const {
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += number_of(x.a[i * s.k + k], s.fp8_a) * number_of(x.b[j * s.k + k], s.fp8_b);
        write_sum({c, s.c}, i * s.ldc + j, sum * *x.factor_a * *x.factor_b, add);
      }
  }
  int64_t codes_bytes() const { return s.fp8_a == Fp8::kNone ? 0 : gpu::Fp8Operands(s).bytes(); }
  void start(const Launch& l, const MatmulOperands& o) const {
    const Plan plan = *this;
    const bool add = s.accumulate && !o.fresh;
    void* const room = static_cast<std::byte*>(l.workspace) + codes_bytes();
    CHECK(reinterpret_cast<uintptr_t>(room) % kBlasWorkspaceAlignment == 0,
          "a product's workspace at {}", room);
    const auto in = static_cast<gpuStream_t>(l.stream.handle);
    gpuError_t code = gpuMemsetAsync(room, 0xff, kWorkspaceBytes, in);
    CHECK(code == gpuSuccess, "a product's workspace: {}", gpuGetErrorString(code));
    if (s.fp8_a == Fp8::kNone) {
      code = cuda_emulator::enqueue(in, [=] { plan.run(o.a, o.b, o.c, add); });
    } else {
      const auto codes = gpu::Fp8Operands(s).write(l.stream, o.a, o.b, l.workspace);
      code = cuda_emulator::enqueue(in, [=] { plan.run_codes(codes, o.c, add); });
    }
    CHECK(code == gpuSuccess, "a product outside of the capture");
  }
};

GpuMatmul::GpuMatmul(const MatmulShape& shape, const GpuBlas& blas)
    : plan_(std::make_unique<Plan>(shape, blas)) {}
GpuMatmul::~GpuMatmul() = default;
GpuMatmul::GpuMatmul(GpuMatmul&&) noexcept = default;
GpuMatmul& GpuMatmul::operator=(GpuMatmul&&) noexcept = default;

int64_t GpuMatmul::workspace_bytes() const { return plan_->codes_bytes() + kWorkspaceBytes; }
void GpuMatmul::pack(const void*, void*) const { CHECK(false, "nothing is packed on a GPU"); }
void GpuMatmul::run(const Launch& l, const MatmulOperands& o) const { plan_->start(l, o); }

}  // namespace tessera::kernels
