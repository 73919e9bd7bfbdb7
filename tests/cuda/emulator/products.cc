// In place of cuBLASLt: products in plain loops.
#include <cstring>

#include "base/error.h"
#include "cuda_runtime.h"
#include "kernels/cpu/operand.h"
#include "kernels/cuda_products.h"

namespace tessera::kernels {

struct CudaBlas::Handle {};
CudaBlas::CudaBlas() : handle_(std::make_unique<Handle>()) {}
CudaBlas::~CudaBlas() = default;

struct CudaMatmul::Plan {
  MatmulShape s;

  explicit Plan(const MatmulShape& shape) : s(shape) {
    CHECK(s.a == s.b && !s.packed_b && s.batch == 1, "a product that CUDA does not make");
    if (s.lda == 0) s.lda = s.transpose_a ? s.m : s.k;
    if (s.ldb == 0) s.ldb = s.transpose_b ? s.k : s.n;
    if (s.ldc == 0) s.ldc = s.n;
  }
  void run(const void* a, const void* b, void* c, bool add) const {
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += read_number(a, s.a, s.transpose_a ? k * s.lda + i : i * s.lda + k) *
                 read_number(b, s.b, s.transpose_b ? j * s.ldb + k : k * s.ldb + j);
        const float before = add ? read_number(c, s.c, i * s.ldc + j) : 0.0f;
        write_number(c, s.c, i * s.ldc + j, before + s.alpha * sum);
      }
  }
};

CudaMatmul::CudaMatmul(const MatmulShape& shape, const CudaBlas&)
    : plan_(std::make_unique<Plan>(shape)) {}
CudaMatmul::~CudaMatmul() = default;
CudaMatmul::CudaMatmul(CudaMatmul&&) noexcept = default;
CudaMatmul& CudaMatmul::operator=(CudaMatmul&&) noexcept = default;

int64_t CudaMatmul::workspace_bytes() const { return 0; }
void CudaMatmul::run(Stream, const void* a, const void* b, void* c, void*) const {
  const Plan plan = *plan_;
  cuda_emulator::enqueue([=] { plan.run(a, b, c, plan.s.accumulate); });
}
void CudaMatmul::run_fresh(Stream, const void* a, const void* b, void* c, void*) const {
  const Plan plan = *plan_;
  cuda_emulator::enqueue([=] { plan.run(a, b, c, false); });
}

}  // namespace tessera::kernels
