// The kernels that are prepared once per shape on the device of the run. Gives the compiler the
// requirements of all kernels (workspaces, packed weights) as a Target.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"
#include "kernels/adapted_experts.h"
#include "kernels/backend.h"
#include "kernels/newton_schulz.h"

namespace tessera::runtime {

// Kernels that are prepared once per shape and shared by all ops of that shape.
template <class Shape, class T>
class ShapeCache {
 public:
  // Returns the kernel of the shape, owned by the cache. make() creates it and returns a
  // unique_ptr; if that is nullptr, so is the result.
  template <class Make>
  const T* get(const Shape& shape, const Make& make) {
    for (const auto& [known, kernel] : all_)
      if (known == shape) return kernel.get();
    std::unique_ptr<T> made = make();
    if (made == nullptr) return nullptr;
    return all_.emplace_back(shape, std::move(made)).second.get();
  }

 private:
  std::vector<std::pair<Shape, std::unique_ptr<T>>> all_;
};

class PreparedKernels {
 public:
  explicit PreparedKernels(std::unique_ptr<kernels::Backend> backend)
      : backend_(std::move(backend)) {}
  PreparedKernels(const CpuFeatures& cpu, int threads)
      : PreparedKernels(kernels::backend_of(cpu, threads)) {}
  PreparedKernels(const PreparedKernels&) = delete;
  PreparedKernels& operator=(const PreparedKernels&) = delete;

  kernels::Backend& backend() { return *backend_; }
  const kernels::Backend& backend() const { return *backend_; }

  int threads() const { return backend_->threads(); }
  // Returns the kernels of the device that need no preparation.
  const kernels::KernelTable& table() const { return backend_->table(); }
  const kernels::Gemm& product(const kernels::MatmulShape& shape);
  const kernels::LmHead& head(const kernels::LinearCrossEntropyShape& shape);
  const kernels::Experts& experts(const kernels::ExpertsShape& shape);
  // Returns the prepared kernel of an op (OpRule::prepared), or nullptr if a kernel of table()
  // computes the op.
  const kernels::PreparedKernel* prepared(const Op& op, ValueSpan local_values);

  // Returns the requirements of the kernels. This object must outlive the result.
  Target target();

 private:
  const kernels::PreparedKernel& experts(const Op& op, ValueSpan values);
  const kernels::OrthogonalMatrices& orthogonal(const Op& op, ValueSpan values);
  const kernels::GpuAttention* attention(const Op& op, ValueSpan values);
  const kernels::PreparedKernel* prepared_whole(const Op& op, ValueSpan values);
  int64_t workspace_bytes(const Op& op, ValueSpan values);

  std::unique_ptr<kernels::Backend> backend_;
  ShapeCache<kernels::MatmulShape, kernels::Gemm> products_;
  ShapeCache<kernels::LinearCrossEntropyShape, kernels::LmHead> heads_;
  ShapeCache<kernels::ExpertsShape, kernels::Experts> experts_;
  ShapeCache<kernels::AdaptedExpertsShape, kernels::AdaptedExperts> adapted_experts_;
  ShapeCache<kernels::AttentionShape, kernels::GpuAttention> attention_;
  ShapeCache<kernels::NewtonSchulzShape, kernels::OrthogonalMatrices> orthogonal_;
};

// Returns the shape of the GEMM that an op with Prepared::kProduct computes, or packs a weight for.
kernels::MatmulShape product_shape(const Op& op, ValueSpan values);
kernels::LinearCrossEntropyShape head_shape(const Op& op, ValueSpan values);
kernels::ExpertsShape experts_shape(const Op& op, ValueSpan values);
// Returns the shape of experts with adapters; nothing if they have none.
std::optional<kernels::AdaptedExpertsShape> adapted_experts_shape(const Op& op, ValueSpan values);
// Returns the shape of an op with Prepared::kAttention, or nothing if it cannot be prepared: it has
// dropout or a bias, or an empty dimension.
std::optional<kernels::AttentionShape> attention_shape(const Op& op, ValueSpan values);

}  // namespace tessera::runtime
