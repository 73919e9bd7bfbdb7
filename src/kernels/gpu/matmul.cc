// GEMMs by cuBLASLt, and the choice among its algorithms. cuBLASLt is column-major: to it, a
// row-major matrix is the transpose. So C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T, with
// the operands exchanged and the transpose flags kept.
// The algorithm comes from, in this order: the stored choices, a measurement of up to eight
// proposals of the library (if there is a clock), or the library's first proposal. A stored choice
// also fixes the bits of the results, because split-k algorithms differ in the order of their sums.
// With FP8, the operands are first quantized into the workspace (gpu/fp8.h), and the factors are
// passed as device pointers, so no value is read back.
//
//   workspace of a run:  [ FP8 codes of A and B | cuBLASLt's workspace ]
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/fp8.h"
#include "kernels/gpu/noise.h"
#include "kernels/gpu_products.h"
#include "tensor/gpu/check.h"
#include "tensor/gpu/late_library.h"

namespace tessera::kernels {
namespace {

// NVIDIA's recommendation for Hopper; older GPUs need less.
constexpr int64_t kWorkspaceBytes = 32ll << 20;
constexpr uint32_t kAlignment = 16;         // bytes; guaranteed for operands
constexpr int64_t kOperandAlignment = 256;  // bytes; for operands in the workspace
// The maximum number of the library's proposals that are measured, in the order of its heuristic.
// Later ones are rarely the fastest.
constexpr int kMostProposals = 8;
// GEMMs per measured graph. In a graph, launch time is negligible.
constexpr int kMeasuredRuns = 10;
// A placeholder for the factors of FP8 operands. Not every algorithm supports factors, so their
// pointers must be set before cuBLASLt proposes algorithms. The value is never read.
alignas(16) constexpr float kNoFactor = 1.0f;

}  // namespace

struct GpuBlas::Handle {
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
  decltype(&cublasLtGetVersion) version = nullptr;

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
    library.find("cublasLtGetVersion", version);
    check(create(&native), "cublasLtCreate");
  }
  ~Handle() { destroy(native); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void check(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) throw Error("{} failed: {}.", call, describe(status));
  }
};

GpuBlas::GpuBlas(bool tf32) : handle_(std::make_unique<Handle>()), tf32_(tf32) {}
GpuBlas::~GpuBlas() = default;
int64_t GpuBlas::version() const { return handle_->version(); }

namespace {

using Handle = GpuBlas::Handle;

cudaDataType_t library_type(DType t) {
  CHECK(t == DType::kF32 || t == DType::kBF16 || t == DType::kF16, "GEMM of {}", name_of(t));
  return t == DType::kF32 ? CUDA_R_32F : t == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}
cudaDataType_t library_type(DType t, Fp8 f) {
  if (f == Fp8::kNone) return library_type(t);
  return f == Fp8::kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

// Returns the shape that cuBLASLt computes. With FP8, its operands are codes with k contiguous in
// both.
MatmulShape with_codes(MatmulShape s) {
  if (s.fp8_a == Fp8::kNone) return s;
  s.transpose_a = false;
  s.transpose_b = true;
  return s;
}

// A matrix in memory with `rows` rows of `columns` elements, at distances of `ld` elements. To
// cuBLASLt, which is column-major, it is the transpose.
struct Matrix {
  const Handle& lt;
  cublasLtMatrixLayout_t native = nullptr;

  Matrix(const Handle& handle, cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld,
         int64_t batch, int64_t stride)
      : lt(handle) {
    lt.check(lt.make_matrix(&native, type, columns, rows, ld), "cublasLtMatrixLayoutCreate");
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

Matrix matrix(const Handle& lt, cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld,
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

// C = op(A) op(B) row-major is C^T = op(B)^T op(A)^T column-major: B comes first.
struct GpuMatmul::Plan {
  MatmulShape shape;  // as requested
  MatmulShape made;   // as cuBLASLt computes it
  const Handle& lt;
  Matrix a, b, c;
  cublasLtMatmulDesc_t product = nullptr;
  struct Proposal {
    cublasLtMatmulAlgo_t algorithm;
    int64_t workspace;
  };
  Proposal taken = {}, fresh = {};  // fresh: the algorithm for overwriting C when the
                                    // shape otherwise accumulates

  Plan(const MatmulShape& s, const GpuBlas& blas)
      : shape(s),
        made(with_codes(s)),
        lt(blas.handle()),
        a(operand(s.a, s.fp8_a, made.transpose_a ? s.k : s.m, made.transpose_a ? s.m : s.k, s.lda,
                  s.stride_a)),
        b(operand(s.b, s.fp8_b, made.transpose_b ? s.n : s.k, made.transpose_b ? s.k : s.n, s.ldb,
                  s.stride_b)),
        c(operand(s.c, Fp8::kNone, s.m, s.n, s.ldc, s.stride_c)) {
    CHECK(s.a == s.b, "GEMM of {} and {} on CUDA", name_of(s.a), name_of(s.b));
    CHECK(!s.packed_b, "packed operand on CUDA");
    const bool tf32 = blas.tf32() && s.a == DType::kF32;
    lt.check(lt.make_product(&product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                             CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, made.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, made.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (rounds()) {
      gpu::check_fp8_product(s);
      set_factors(&kNoFactor, &kNoFactor);
    }
    choose(blas);
  }
  ~Plan() { lt.end_product(product); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  Matrix operand(DType type, Fp8 fp8, int64_t rows, int64_t columns, int64_t ld,
                 int64_t stride) const {
    return matrix(lt, library_type(type, fp8), rows, columns, ld, shape.batch, stride);
  }
  bool rounds() const { return shape.fp8_a != Fp8::kNone; }
  int64_t codes_bytes() const { return rounds() ? gpu::Fp8Operands(shape).bytes() : 0; }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value) const {
    lt.check(lt.set_product(product, what, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  }

  // Sets the device addresses of the factors of FP8 codes.
  void set_factors(const float* factor_a, const float* factor_b) const {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, factor_b);  // B comes first
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, factor_a);
  }

  // Chooses the algorithm: the stored choice, else the fastest measured one, else the library's
  // first proposal.
  void choose(const GpuBlas& blas) {
    KernelChoices* const choices = blas.choices();
    taken = chosen(choices, blas);
    fresh = taken;
    if (choices == nullptr || !shape.accumulate) return;
    MatmulShape writes = shape;
    writes.accumulate = false;
    if (const GemmChoice* known = choices->find(writes)) fresh = proposal_of(*known);
  }

  Proposal chosen(KernelChoices* choices, const GpuBlas& blas) {
    if (const GemmChoice* known = choices ? choices->find(shape) : nullptr)
      return proposal_of(*known);
    const bool measures = choices && blas.now_s();
    const std::vector<Proposal> all = proposals(measures ? kMostProposals : 1);
    if (!measures) return all[0];
    const FastestGemm fastest = measure(all, blas.now_s());
    const Proposal& best = all[fastest.index];
    choices->add(shape,
                 {std::bit_cast<AlgorithmWords>(best.algorithm), best.workspace, fastest.seconds});
    return best;
  }

  // A stored algorithm is a copy of cuBLASLt's description, which is valid for one version of the
  // library.
  static Proposal proposal_of(const GemmChoice& known) {
    return {std::bit_cast<cublasLtMatmulAlgo_t>(known.algorithm), known.workspace_bytes};
  }
  int64_t workspace_bytes() const { return std::max(taken.workspace, fresh.workspace); }

  std::vector<Proposal> proposals(int most) const {
    cublasLtMatmulPreference_t wanted = nullptr;
    lt.check(lt.make_preference(&wanted), "cublasLtMatmulPreferenceCreate");
    const uint64_t bytes = kWorkspaceBytes;
    lt.check(
        lt.set_preference(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
        "cublasLtMatmulPreferenceSetAttribute");
    for (const auto what :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      lt.check(lt.set_preference(wanted, what, &kAlignment, sizeof(kAlignment)),
               "cublasLtMatmulPreferenceSetAttribute");
    // C is rounded once: if k is split, partial sums must not be rounded to C's 16 bits.
    const uint32_t reductions = shape.c == DType::kF32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                                       : CUBLASLT_REDUCTION_SCHEME_NONE |
                                                             CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    lt.check(lt.set_preference(wanted, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                               sizeof(reductions)),
             "cublasLtMatmulPreferenceSetAttribute");
    std::vector<cublasLtMatmulHeuristicResult_t> results(most);
    int found = 0;
    const cublasStatus_t status = lt.choose(lt.native, product, b.native, a.native, c.native,
                                            c.native, wanted, most, results.data(), &found);
    lt.end_preference(wanted);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      throw Error(
          "cuBLASLt proposes no algorithm for the GEMM {}: {}. Set CUBLASLT_LOG_LEVEL=5 in the "
          "environment to see the reason.",
          gemm_text(shape), lt.describe(status));
    results.resize(found);
    std::vector<Proposal> all;
    const auto add = [&](const cublasLtMatmulHeuristicResult_t& r) {
      const int64_t workspace_bytes = r.workspaceSize;
      all.push_back({r.algo, workspace_bytes});
    };
    for (const cublasLtMatmulHeuristicResult_t& r : results)
      if (r.state == CUBLAS_STATUS_SUCCESS) add(r);
    if (all.empty()) add(results[0]);
    return all;
  }

  // Returns the bytes from the first to the last element of a matrix, or of all matrices of a
  // batch.
  static int64_t extent(int64_t element_bytes, int64_t rows, int64_t columns, int64_t ld,
                        int64_t batch, int64_t stride) {
    const int64_t row = ld == 0 ? columns : ld;
    const int64_t one = stride == 0 ? rows * row : stride;
    const int64_t bytes = ((batch - 1) * one + rows * row) * element_bytes;
    return (bytes + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment;
  }

  // Measures the proposals on random operands, with zero factors for FP8 codes. If an Error is
  // thrown, the destructor of the graph ends its capture.
  FastestGemm measure(const std::vector<Proposal>& all, const std::function<double()>& now_s) {
    const MatmulShape& s = made;  // FP8 codes need at most these operands' bytes
    const int64_t x = extent(size_of(s.a), s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k,
                             s.lda, s.batch, s.stride_a);
    const int64_t y = extent(size_of(s.b), s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n,
                             s.ldb, s.batch, s.stride_b);
    const int64_t z = extent(size_of(s.c), s.m, s.n, s.ldc, s.batch, s.stride_c);
    const DeviceBuffer memory("measuring GEMMs", x + y + z + kWorkspaceBytes + kOperandAlignment);
    std::byte* const at = memory.data();
    const auto* const factors = reinterpret_cast<const float*>(at + x + y + z + kWorkspaceBytes);
    if (rounds()) set_factors(factors, factors);
    const GpuStream stream;
    for (const auto& [place, bytes] : {std::pair{at, x}, std::pair{at + x, y}})
      if (rounds())
        gpu::fill_with_codes(stream.get(), place, bytes);
      else
        fill_with_noise(stream.get(), place, s.a, bytes / size_of(s.a));
    const float beta = s.accumulate ? 1.0f : 0.0f;
    std::vector<GpuGraph> graphs(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      // The first run loads the kernels. An algorithm that this GPU rejects has no graph and never
      // wins.
      const Launch l = {stream.get(), at + x + y + z};
      if (start(l, all[i], at, at + x, at + x + y, beta) != CUBLAS_STATUS_SUCCESS) continue;
      graphs[i].begin(stream.get());
      for (int n = 0; n < kMeasuredRuns; ++n)
        lt.check(start(l, all[i], at, at + x, at + x + y, beta), "cublasLtMatmul");
      graphs[i].end(stream.get());
    }
    return fastest_gemm(all.size(), [&](size_t i) {
      if (!graphs[i].ready()) return std::numeric_limits<double>::quiet_NaN();
      synchronise(stream.get());
      const double began = now_s();
      graphs[i].launch(stream.get());
      synchronise(stream.get());
      return (now_s() - began) / kMeasuredRuns;
    });
  }

  cublasStatus_t start(const Launch& l, const Proposal& by, const void* x, const void* y, void* z,
                       float beta) const {
    return lt.matmul(lt.native, product, &shape.alpha, y, b.native, x, a.native, &beta, z, c.native,
                     z, c.native, &by.algorithm, l.workspace, by.workspace, native(l.stream));
  }
  // With beta = 0, C is not read, so a fresh C need not be initialized.
  void run(Launch l, const MatmulOperands& o) const {
    const void *x = o.a, *y = o.b;
    if (rounds()) {
      const gpu::Fp8Operands operands(shape);
      const gpu::Fp8Operands::Codes codes = operands.write(l.stream, x, y, l.workspace);
      set_factors(codes.factor_a, codes.factor_b);
      x = codes.a;
      y = codes.b;
      l.workspace = l.room<std::byte>(operands.bytes());
    }
    const bool adds = shape.accumulate && !o.fresh;
    const Proposal& by = o.fresh ? fresh : taken;
    CHECK(by.workspace == 0 ||
              reinterpret_cast<uintptr_t>(l.workspace) % kBlasWorkspaceAlignment == 0,
          "the workspace of {} is at {}", gemm_text(shape), fmt::ptr(l.workspace));
    lt.check(start(l, by, x, y, o.c, adds ? 1.0f : 0.0f), "cublasLtMatmul");
  }
};

GpuMatmul::GpuMatmul(const MatmulShape& shape, const GpuBlas& blas)
    : plan_(std::make_unique<Plan>(shape, blas)) {}
GpuMatmul::~GpuMatmul() = default;
GpuMatmul::GpuMatmul(GpuMatmul&&) noexcept = default;
GpuMatmul& GpuMatmul::operator=(GpuMatmul&&) noexcept = default;

int64_t GpuMatmul::workspace_bytes() const {
  return plan_->codes_bytes() + plan_->workspace_bytes();
}
void GpuMatmul::pack(const void*, void*) const { CHECK(false, "GPUs do not pack operands"); }
void GpuMatmul::run(const Launch& l, const MatmulOperands& o) const { plan_->run(l, o); }

}  // namespace tessera::kernels
