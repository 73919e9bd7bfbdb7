// Computes experts with adapters with the device's kernels: a batched GEMM computes W + scale · B
// A, and the kernel without adapters reads the sum. docs/decisions/expert_adapters.md describes
// alternatives that do not store these sums.
#include "kernels/adapted_experts.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::kernels {
namespace {

// Returns the shape of the experts that run on the sums W + scale · B A. Gradients of the sums are
// f32.
ExpertsShape plain(ExpertsShape s) {
  s.sums = DType::kF32;
  return s;
}

}  // namespace

AdaptedExperts::Matrix AdaptedExperts::matrix(int64_t outputs, int64_t inputs, int64_t rank,
                                              const Backend& backend) const {
  Matrix made;
  if (rank == 0) return made;
  const ExpertsShape& s = shape_.experts;
  made.shape = {s.experts, outputs, inputs};
  const auto product = [&](int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                           DType c) {
    return backend.product({.m = m,
                            .n = n,
                            .k = k,
                            .transpose_a = transpose_a,
                            .transpose_b = transpose_b,
                            .accumulate = true,
                            .a = s.dtype,
                            .b = s.dtype,
                            .c = c,
                            .batch = s.experts,
                            .alpha = shape_.scale});
  };
  made.merge = product(outputs, inputs, rank, false, false, s.dtype);
  if (!shape_.trained) return made;
  made.d_a = product(rank, inputs, outputs, true, false, s.sums);
  made.d_b = product(outputs, rank, inputs, false, true, s.sums);
  return made;
}

AdaptedExperts::AdaptedExperts(const AdaptedExpertsShape& shape, const Backend& backend)
    : shape_(shape), kernels_(backend.table()), experts_(backend.experts(plain(shape.experts))) {
  const ExpertsShape& s = shape.experts;
  CHECK(shape.up_rank > 0 || shape.down_rank > 0, "neither up nor down has an adapter");
  CHECK(!shape.trained || s.gradient, "adapters can be trained only by the gradient");
  up_ = matrix(2 * s.inner, s.hidden, shape.up_rank, backend);
  down_ = matrix(s.hidden, s.inner, shape.down_rank, backend);
  int64_t scratch = experts_->workspace_bytes();
  for (const Matrix* m : {&up_, &down_})
    for (const auto* gemm : {&m->merge, &m->d_a, &m->d_b})
      if (*gemm != nullptr) scratch = std::max(scratch, (*gemm)->workspace_bytes());
  // The alignment in bytes that GEMMs on a GPU need.
  constexpr int64_t kAlignment = 256;
  const auto take = [&](int64_t size) {
    const int64_t at = bytes_;
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  take(scratch);
  for (Matrix* m : {&up_, &down_})
    if (m->adapted()) m->at = take(m->shape.elements() * size_of(s.dtype));
  for (Matrix* m : {&up_, &down_})
    if (m->adapted() && shape.trained)
      m->gradient_at = take(m->shape.elements() * size_of(DType::kF32));
}

TensorView AdaptedExperts::merged(const Launch& l, const Matrix& m) const {
  return {l.room<std::byte>(m.at), shape_.experts.dtype, m.shape};
}
TensorView AdaptedExperts::gradient(const Launch& l, const Matrix& m) const {
  return {l.room<std::byte>(m.gradient_at), DType::kF32, m.shape};
}

// Returns the sum of w and its adapter, or w if it has none.
const void* AdaptedExperts::merge(const Launch& l, const Matrix& m, const void* w,
                                  const ExpertAdapterOperands& adapter) const {
  if (!m.adapted()) return w;
  const TensorView sum = merged(l, m);
  kernels_.of<CopyArgs>().run(l, {{const_cast<void*>(w), sum.dtype, sum.shape}, sum});
  m.merge->run(l, {adapter.b, adapter.a, sum.data});
  return sum.data;
}

// Adds to the gradients of the adapter. The sum W + scale · B A is no longer needed, so its bytes
// are reused for its gradient in the dtype of the GEMMs.
void AdaptedExperts::add_gradients(const Launch& l, const Matrix& m,
                                   const ExpertAdapterOperands& adapter) const {
  if (!m.adapted()) return;
  TensorView d = gradient(l, m);
  if (shape_.experts.dtype != DType::kF32) {
    const TensorView rounded = merged(l, m);
    kernels_.of<CastArgs>().run(l, {d, rounded});
    d = rounded;
  }
  m.d_a->run(l, {adapter.b, d.data, adapter.d_a, adapter.fresh_a});
  m.d_b->run(l, {d.data, adapter.a, adapter.d_b, adapter.fresh_b});
}

void AdaptedExperts::run(const Launch& l, const ExpertsOperands& experts,
                         const ExpertAdapterOperands& up, const ExpertAdapterOperands& down) const {
  ExpertsOperands o = experts;
  CHECK(o.d_up == nullptr && o.d_down == nullptr && o.d_up_bias == nullptr,
        "experts with adapters have no gradients of up, down or up_bias");
  o.up = merge(l, up_, o.up, up);
  o.down = merge(l, down_, o.down, down);
  if (shape_.trained && up_.adapted()) {
    o.d_up = gradient(l, up_).data;
    o.fresh_up = true;
  }
  if (shape_.trained && down_.adapted()) {
    o.d_down = gradient(l, down_).data;
    o.fresh_down = true;
  }
  experts_->run(l, o);
  if (!shape_.trained) return;
  add_gradients(l, up_, up);
  add_gradients(l, down_, down);
}

}  // namespace tessera::kernels
