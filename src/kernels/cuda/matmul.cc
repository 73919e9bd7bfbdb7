#include <cublasLt.h>

#include <utility>

#include "base/error.h"
#include "kernels/cuda_products.h"
#include "tensor/cuda/late_library.h"

namespace tessera::kernels {
namespace {

// What NVIDIA advises for Hopper; older cards do with less.
constexpr int64_t kWorkspaceBytes = 32ll << 20;
constexpr uint32_t kAlignment = 16;  // of operands

}  // namespace

struct CudaBlas::Handle {
  LateLibrary library;
  cublasLtHandle_t native = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) end_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_matrix = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_matrix = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) end_matrix = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) end_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtGetStatusString) describe = nullptr;

  Handle() : library("libcublasLt.so.13", TESSERA_CUDA_LIBRARIES, "cuBLASLt of CUDA 13") {
    decltype(&cublasLtCreate) create = nullptr;
    library.find("cublasLtCreate", create);
    library.find("cublasLtDestroy", destroy);
    library.find("cublasLtMatmul", matmul);
    library.find("cublasLtMatmulDescCreate", make_product);
    library.find("cublasLtMatmulDescSetAttribute", set_product);
    library.find("cublasLtMatmulDescDestroy", end_product);
    library.find("cublasLtMatrixLayoutCreate", make_matrix);
    library.find("cublasLtMatrixLayoutSetAttribute", set_matrix);
    library.find("cublasLtMatrixLayoutDestroy", end_matrix);
    library.find("cublasLtMatmulPreferenceCreate", make_preference);
    library.find("cublasLtMatmulPreferenceSetAttribute", set_preference);
    library.find("cublasLtMatmulPreferenceDestroy", end_preference);
    library.find("cublasLtMatmulAlgoGetHeuristic", choose);
    library.find("cublasLtGetStatusString", describe);
    check(create(&native), "cublasLtCreate");
  }
  ~Handle() { destroy(native); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void check(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) throw Error("{} failed: {}.", call, describe(status));
  }
};

CudaBlas::CudaBlas() : handle_(std::make_unique<Handle>()) {}
CudaBlas::~CudaBlas() = default;

namespace {

using Handle = CudaBlas::Handle;

cudaDataType_t library_type(DType t) {
  CHECK(t == DType::kF32 || t == DType::kBF16 || t == DType::kF16, "a matrix product of {}",
        name_of(t));
  return t == DType::kF32 ? CUDA_R_32F : t == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}

// A matrix that stands in memory as `rows` rows of `columns`, `ld` apart: to the library, which
// counts by columns, its transpose.
struct Matrix {
  const Handle& lt;
  cublasLtMatrixLayout_t native = nullptr;

  Matrix(const Handle& handle, DType type, int64_t rows, int64_t columns, int64_t ld, int64_t batch,
         int64_t stride)
      : lt(handle) {
    lt.check(lt.make_matrix(&native, library_type(type), static_cast<uint64_t>(columns),
                            static_cast<uint64_t>(rows), ld),
             "cublasLtMatrixLayoutCreate");
    if (batch == 1) return;
    const auto count = static_cast<int32_t>(batch);
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  ~Matrix() { lt.end_matrix(native); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t what, const T& value) {
    lt.check(lt.set_matrix(native, what, &value, sizeof(value)),
             "cublasLtMatrixLayoutSetAttribute");
  }
};

Matrix matrix(const Handle& lt, DType type, int64_t rows, int64_t columns, int64_t ld,
              int64_t batch, int64_t stride) {
  return {lt,
          type,
          rows,
          columns,
          ld == 0 ? columns : ld,
          batch,
          stride == 0 ? rows * (ld == 0 ? columns : ld) : stride};
}

}  // namespace

// C = op(A) op(B) by rows is C' = op(B)' op(A)' by columns: B comes first.
struct CudaMatmul::Plan {
  MatmulShape shape;
  const Handle& lt;
  Matrix a, b, c;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  int64_t workspace = 0;

  Plan(const MatmulShape& s, const Handle& handle)
      : shape(s),
        lt(handle),
        a(matrix(lt, s.a, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda, s.batch,
                 s.stride_a)),
        b(matrix(lt, s.b, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb, s.batch,
                 s.stride_b)),
        c(matrix(lt, s.c, s.m, s.n, s.ldc, s.batch, s.stride_c)) {
    CHECK(s.a == s.b, "a product of {} and {} on CUDA", name_of(s.a), name_of(s.b));
    CHECK(!s.packed_b, "nothing is packed on CUDA");
    lt.check(lt.make_product(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    choose();
  }
  ~Plan() { lt.end_product(product); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void set(cublasLtMatmulDescAttributes_t what, cublasOperation_t value) {
    lt.check(lt.set_product(product, what, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  }

  void choose() {
    cublasLtMatmulPreference_t wanted = nullptr;
    lt.check(lt.make_preference(&wanted), "cublasLtMatmulPreferenceCreate");
    const auto most = static_cast<uint64_t>(kWorkspaceBytes);
    lt.check(
        lt.set_preference(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)),
        "cublasLtMatmulPreferenceSetAttribute");
    for (const auto what :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      lt.check(lt.set_preference(wanted, what, &kAlignment, sizeof(kAlignment)),
               "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    const cublasStatus_t status = lt.choose(lt.native, product, b.native, a.native, c.native,
                                            c.native, wanted, 1, &best, &found);
    lt.end_preference(wanted);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      throw Error("cuBLASLt cannot make a product of m={} n={} k={} from {} to {}: {}.", shape.m,
                  shape.n, shape.k, name_of(shape.a), name_of(shape.c), lt.describe(status));
    algorithm = best.algo;
    workspace = static_cast<int64_t>(best.workspaceSize);
  }

  void run(Stream s, const void* x, const void* y, void* z, void* space, float beta) const {
    lt.check(lt.matmul(lt.native, product, &shape.alpha, y, b.native, x, a.native, &beta, z,
                       c.native, z, c.native, &algorithm, space, static_cast<size_t>(workspace),
                       static_cast<cudaStream_t>(s.handle)),
             "cublasLtMatmul");
  }
};

CudaMatmul::CudaMatmul(const MatmulShape& shape, const CudaBlas& blas)
    : plan_(std::make_unique<Plan>(shape, blas.handle())) {}
CudaMatmul::~CudaMatmul() = default;
CudaMatmul::CudaMatmul(CudaMatmul&&) noexcept = default;
CudaMatmul& CudaMatmul::operator=(CudaMatmul&&) noexcept = default;

int64_t CudaMatmul::workspace_bytes() const { return plan_->workspace; }
void CudaMatmul::run(Stream s, const void* a, const void* b, void* c, void* workspace) const {
  plan_->run(s, a, b, c, workspace, plan_->shape.accumulate ? 1.0f : 0.0f);
}
void CudaMatmul::run_fresh(Stream s, const void* a, const void* b, void* c, void* workspace) const {
  plan_->run(s, a, b, c, workspace, 0.0f);
}

}  // namespace tessera::kernels
