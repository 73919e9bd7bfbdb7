// GEMM on the CPU: oneDNN if it has a fast kernel for the shape (blocked, AVX-512), otherwise
// TiledProduct.
// The choice is made once, in the constructor. If oneDNN cannot prepare the GEMM or uses one of its
// slow reference kernels, TiledProduct is used as well.
// FP8 operands are first rounded to the numbers of the format (kernels/fp8.h) and then multiplied
// in their original type, since no CPU kernel multiplies FP8. Workspace of a run:
//
//   [ A rounded to FP8 | B rounded to FP8 | scratch of oneDNN | B in oneDNN's order ]
//     only with FP8      only with FP8                          only with Packing::kInRun
#include "kernels/matmul.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "dnnl.hpp"
#include "kernels/cpu/tiled_product.h"
#include "tensor/process_limits.h"
#include "tensor/tensor.h"

namespace tessera::kernels {
namespace {

using Memory = dnnl::memory;
using Description = dnnl::memory::desc;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

Memory::data_type library_type(DType t) {
  CHECK(t == DType::kF32 || t == DType::kBF16, "GEMM of {}", name_of(t));
  return t == DType::kF32 ? Memory::data_type::f32 : Memory::data_type::bf16;
}

// Fills in the strides that the shape leaves at 0.
MatmulShape resolve(MatmulShape s) {
  CHECK(s.m > 0 && s.n > 0 && s.k > 0 && s.batch > 0, "GEMM with m={} n={} k={} batch={}", s.m, s.n,
        s.k, s.batch);
  CHECK(!s.packed_b || s.batch == 1, "packed operand in a batch of {}", s.batch);
  const int64_t rows_a = s.transpose_a ? s.k : s.m, row_a = s.transpose_a ? s.m : s.k;
  const int64_t rows_b = s.transpose_b ? s.n : s.k, row_b = s.transpose_b ? s.k : s.n;
  if (s.lda == 0) s.lda = row_a;
  if (s.ldb == 0) s.ldb = row_b;
  if (s.ldc == 0) s.ldc = s.n;
  if (s.stride_a == 0) s.stride_a = rows_a * s.lda;
  if (s.stride_b == 0) s.stride_b = rows_b * s.ldb;
  if (s.stride_c == 0) s.stride_c = s.m * s.ldc;
  CHECK(s.lda >= row_a && s.ldb >= row_b && s.ldc >= s.n, "rows overlap: lda={} ldb={} ldc={}",
        s.lda, s.ldb, s.ldc);
  return s;
}

bool is_dense(const MatmulShape& s) {
  const int64_t row_a = s.transpose_a ? s.m : s.k, row_b = s.transpose_b ? s.k : s.n;
  return s.lda == row_a && s.ldb == row_b && s.ldc == s.n &&
         (s.batch == 1 ||
          (s.stride_a == s.m * s.k && s.stride_b == s.k * s.n && s.stride_c == s.m * s.n));
}

// oneDNN runs on OpenMP's default team. This class sets the size of that team for the calling
// thread and restores it on destruction.
class TeamSize {
 public:
  explicit TeamSize(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
  }
  ~TeamSize() { omp_set_num_threads(before_); }
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  int before_;
};

Description describe(const MatmulShape& s, int64_t rows, int64_t columns, DType type,
                     // A transposed operand is the same memory with its two strides exchanged.
                     int64_t leading, int64_t stride, bool transposed) {
  const Memory::dims inner = transposed ? Memory::dims{1, leading} : Memory::dims{leading, 1};
  if (s.batch == 1) return {{rows, columns}, library_type(type), inner};
  return {{s.batch, rows, columns}, library_type(type), {stride, inner[0], inner[1]}};
}

// oneDNN 3 has no operation descriptors; this is the only place where the versions differ.
template <class Product = dnnl::matmul>
typename Product::primitive_desc plan_product(const dnnl::engine& engine, const Description& a,
                                              const Description& b, const Description& c,
                                              const dnnl::primitive_attr& attributes) {
  if constexpr (requires { typename Product::desc; }) {
    return typename Product::primitive_desc(typename Product::desc(a, b, c), attributes, engine);
  } else {
    return typename Product::primitive_desc(engine, a, b, c, attributes);
  }
}

// Throws Error if there is no address space for generated code: oneDNN 2.6 then writes through a
// null pointer.
void require_space_for_code() {
  constexpr int64_t kCodeBytes = 16 << 20;  // more than the code of any GEMM
  if (const int64_t free = free_address_space(); free < kCodeBytes)
    throw Error(
        "the process can map only {:.1f} MiB more, but generating the code of a GEMM needs up to "
        "{} "
        "MiB. Raise the limit of its address space (ulimit -v).",
        mib(std::max<int64_t>(free, 0)), kCodeBytes >> 20);
}

// When B is reordered for oneDNN: never, by pack() before the runs, or at the start of every run.
enum class Packing { kNone, kAhead, kInRun };

// A GEMM by oneDNN. All scratch memory is in the caller's workspace, and the memory objects are
// created once, so run() creates none.
class LibraryProduct {
 public:
  LibraryProduct(const MatmulShape& s, int threads, Packing packing)
      : packing_(packing),
        threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    require_space_for_code();
    const TeamSize team(threads);
    const Description a = describe(s, s.m, s.k, s.a, s.lda, s.stride_a, s.transpose_a);
    const Description b = describe(s, s.k, s.n, s.b, s.ldb, s.stride_b, s.transpose_b);
    const Description c = describe(s, s.m, s.n, s.c, s.ldc, s.stride_c, false);
    // Layout `any` lets oneDNN choose the order of B that its kernel reads fastest.
    const Description any({s.k, s.n}, library_type(s.b), Memory::format_tag::any);
    dnnl::primitive_attr attributes;
    // The caller provides the scratch memory; otherwise oneDNN would allocate it in every run.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    // C += A B is a GEMM with a post-op that adds the old C, in one pass over C.
    if (s.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto description =
        plan_product(engine_, a, packing == Packing::kNone ? b : any, c, attributes);
    implementation_ = description.impl_info_str();
    product_ = dnnl::matmul(description);
    scratch_bytes_ = aligned(description.scratchpad_desc().get_size());
    packed_bytes_ = description.weights_desc().get_size();
    a_ = Memory(a, engine_, nullptr);
    b_ = Memory(description.weights_desc(), engine_, nullptr);
    c_ = Memory(c, engine_, nullptr);
    scratch_ = Memory(description.scratchpad_desc(), engine_, nullptr);
    arguments_ = {{DNNL_ARG_SRC, a_},
                  {DNNL_ARG_WEIGHTS, b_},
                  {DNNL_ARG_DST, c_},
                  {DNNL_ARG_SCRATCHPAD, scratch_}};
    // B already has the order that oneDNN prefers, so it is not packed.
    if (description.weights_desc() == b) return;
    plain_b_ = Memory(b, engine_, nullptr);
    reorder_ = dnnl::reorder(
        dnnl::reorder::primitive_desc(engine_, b, engine_, description.weights_desc()));
  }

  int64_t workspace_bytes() const {
    return scratch_bytes_ + (packing_ == Packing::kInRun && reorder_ ? packed_bytes_ : 0);
  }
  int64_t packed_bytes() const {
    return packing_ == Packing::kAhead && reorder_ ? packed_bytes_ : 0;
  }
  // The blocked ("brgemm") kernels are fast; others, such as "gemm" and "ref", are slow.
  bool is_blocked() const { return implementation_.starts_with("brg"); }

  void pack(const void* b, void* packed) {
    const TeamSize team(threads_);
    plain_b_.set_data_handle(const_cast<void*>(b));
    b_.set_data_handle(packed);
    reorder_.execute(stream_, {{DNNL_ARG_FROM, plain_b_}, {DNNL_ARG_TO, b_}});
  }

  void run(const void* a, const void* b, void* c, void* workspace) {
    const TeamSize team(threads_);
    if (packing_ == Packing::kInRun && reorder_) {
      void* const packed = element(workspace, DType::kU8, scratch_bytes_);
      pack(b, packed);
      b = packed;
    }
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    scratch_.set_data_handle(workspace);
    product_.execute(stream_, arguments_);
  }

 private:
  Packing packing_;
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  dnnl::reorder reorder_;
  Memory a_, b_, plain_b_, c_, scratch_;
  std::unordered_map<int, Memory> arguments_;
  std::string implementation_;
  int64_t scratch_bytes_ = 0, packed_bytes_ = 0;
};

// oneDNN's blocked kernels need AVX-512 and dense operands of one type; for anything else it uses
// kernels that allocate memory, or rejects the shape. TiledProduct computes those.
bool library_is_good(const MatmulShape& s, const CpuFeatures& cpu) {
  // With few rows, our dot products read B once, at memory bandwidth; the library copies B. Their
  // bits do not depend on the number of rows either.
  if (has_few_rows(s)) return false;
  if (s.alpha != 1.0f) return false;  // its interface differs between versions of the library
  return cpu.avx512 && is_dense(s) && s.a == s.b && s.a != DType::kF16 && s.c != DType::kF16 &&
         (s.a == DType::kF32 || cpu.bf16_products());
}

// A weight gradient reads x (B) once for every block of rows of A. With enough rows, reordering B
// in each run costs less than it saves.
Packing packing_in_run(const MatmulShape& s) {
  constexpr int64_t kManyRows = 1024;
  return s.transpose_a && s.batch == 1 && s.m >= kManyRows ? Packing::kInRun : Packing::kNone;
}

}  // namespace

struct Matmul::Plan {
  MatmulShape shape;
  int threads = 1;
  // If the shape accumulates, `fresh` is the same GEMM without accumulation; otherwise it is empty.
  std::optional<LibraryProduct> library, fresh;
  std::optional<TiledProduct> tiled;

  bool rounds() const { return shape.fp8_a != Fp8::kNone; }
  int64_t rounded_bytes_a() const { return aligned(shape.m * shape.k * size_of(shape.a)); }
  int64_t rounded_bytes_b() const { return aligned(shape.k * shape.n * size_of(shape.b)); }
  // Writes the rounded operands to the workspace and sets a and b to them, and `workspace` to the
  // rest.
  void round(const void*& a, const void*& b, void*& workspace) const;
  bool use_library(const CpuFeatures& cpu);
};

void Matmul::Plan::round(const void*& a, const void*& b, void*& workspace) const {
  if (!rounds()) return;
  std::byte* const to = element(workspace, DType::kU8, 0);
  std::byte* const to_b = to + rounded_bytes_a();
  round_to_fp8(a, shape.a, shape.m * shape.k, shape.fp8_a, to, threads);
  round_to_fp8(b, shape.b, shape.k * shape.n, shape.fp8_b, to_b, threads);
  a = to;
  b = to_b;
  workspace = to_b + rounded_bytes_b();
}

bool Matmul::Plan::use_library(const CpuFeatures& cpu) {
  if (!library_is_good(shape, cpu)) return false;
  const Packing packing = shape.packed_b ? Packing::kAhead : packing_in_run(shape);
  try {
    library.emplace(shape, threads, packing);
    if (shape.accumulate) {
      MatmulShape first = shape;
      first.accumulate = false;
      fresh.emplace(first, threads, packing);
    }
  } catch (const dnnl::error&) {
    return false;  // an older library, or one that was built without this type
  }
  return library->is_blocked() && (!fresh || fresh->is_blocked());
}

Matmul::Matmul(const MatmulShape& shape, const CpuFeatures& cpu, int threads)
    : plan_(std::make_unique<Plan>()) {
  CHECK(threads > 0, "GEMM with {} threads", threads);
  plan_->shape = resolve(shape);
  plan_->threads = threads;
  CHECK((shape.fp8_a == Fp8::kNone) == (shape.fp8_b == Fp8::kNone), "only one FP8 operand");
  CHECK(!plan_->rounds() || (is_dense(plan_->shape) && shape.batch == 1 && !shape.packed_b),
        "FP8 operands that are not dense");
  if (plan_->use_library(cpu)) return;
  plan_->library.reset();
  plan_->fresh.reset();
  plan_->tiled.emplace(plan_->shape, cpu, threads);
}

Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

int64_t Matmul::workspace_bytes() const {
  const int64_t rounded = plan_->rounds() ? plan_->rounded_bytes_a() + plan_->rounded_bytes_b() : 0;
  if (!plan_->library) return rounded + plan_->tiled->workspace_bytes();
  return rounded + std::max(plan_->library->workspace_bytes(),
                            plan_->fresh ? plan_->fresh->workspace_bytes() : 0);
}

int64_t Matmul::packed_bytes() const {
  if (!plan_->shape.packed_b) return 0;
  return plan_->library ? plan_->library->packed_bytes() : plan_->tiled->packed_bytes();
}

void Matmul::pack(const void* b, void* packed) const {
  CHECK(packed_bytes() > 0, "packing an operand of a GEMM that needs no packing");
  if (plan_->library) return plan_->library->pack(b, packed);
  plan_->tiled->pack(b, packed);
}

void Matmul::run(const Launch& l, const MatmulOperands& o) const {
  CHECK(!o.fresh || plan_->shape.accumulate, "fresh run of a GEMM that does not accumulate");
  const void *a = o.a, *b = o.b;
  void* workspace = l.workspace;
  plan_->round(a, b, workspace);
  if (plan_->library)
    (o.fresh ? plan_->fresh : plan_->library)->run(a, b, o.c, workspace);
  else
    plan_->tiled->run(a, b, o.c, workspace, plan_->shape.accumulate && !o.fresh);
}

}  // namespace tessera::kernels
