// The kernels that are prepared once per shape, on the device of the run, and what all kernels ask
// of the compiler (workspaces, packed weights) as its Target.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/program.h"
#include "ir/target.h"
#include "kernels/gpu_attention.h"
#include "kernels/gpu_products.h"
#include "kernels/kernels.h"
#include "runtime/shape_cache.h"

namespace tessera {

class PreparedKernels {
 public:
  PreparedKernels(const CpuFeatures& cpu, int threads) : cpu_(cpu), threads_(threads) {}
  // Of the device that use_gpu() made this process's own. tf32: see GpuBlas.
  PreparedKernels(const CpuFeatures& cpu, int threads, const GpuFeatures& gpu, bool tf32 = false);
  PreparedKernels(const PreparedKernels&) = delete;
  PreparedKernels& operator=(const PreparedKernels&) = delete;

  int threads() const { return threads_; }
  const CpuFeatures& cpu() const { return cpu_; }
  bool on_gpu() const { return blas_ != nullptr; }
  const GpuFeatures& gpu() const { return gpu_; }
  bool tf32() const { return on_gpu() && blas_->tf32(); }
  // On a GPU: which algorithms products take that are made from now on. With a clock, those that
  // have none are measured; without a clock, nothing is measured. See GpuBlas::choose_by.
  kernels::ProductChoices& choices() { return *choices_; }
  void measure_products(std::function<double()> now_s);
  // On a GPU: from now on attention that cuDNN could make is made by what the choices have for it,
  // or what is measured (measure_products). cuDNN is opened at the first of these; `say`
  // receives a log line if cuDNN is opened, cannot be opened, or is rejected for a shape.
  void choose_attention(std::function<void(const std::string&)> say);

  // The kernels of the device that need no preparation.
  const kernels::KernelTable& table() const { return *table_; }
  const kernels::Product& product(const kernels::MatmulShape& shape);
  const kernels::Head& head(const kernels::LinearCrossEntropyShape& shape);
  // The kernel of an op, by OpRule::prepared; nullptr: the table's kernel computes it.
  const kernels::PreparedKernel* prepared(const Op& op, ValueSpan local_values);

  // Refers to this object: it must outlive the target.
  Target target();

 private:
  const kernels::GpuAttention* attention(const Op& op, ValueSpan values);
  int64_t workspace_bytes(const Op& op, ValueSpan values);

  CpuFeatures cpu_;
  int threads_;
  GpuFeatures gpu_;
  std::unique_ptr<kernels::GpuBlas> blas_;  // on a GPU alone, as is what follows
  std::unique_ptr<kernels::ProductChoices> choices_;
  const kernels::KernelTable* table_ = &kernels::cpu_kernels();
  ShapeCache<kernels::MatmulShape, kernels::Product> products_;
  ShapeCache<kernels::LinearCrossEntropyShape, kernels::Head> heads_;
  std::unique_ptr<kernels::CudaDnn> dnn_;
  kernels::AttentionChoosing attention_by_;
  bool asks_dnn_ = false;  // choose_attention was called, and cuDNN is not open yet
  ShapeCache<kernels::AttentionShape, kernels::GpuAttention> attention_;
};

// The shape of the product that an op with Prepared::kProduct computes, or packs a weight for.
kernels::MatmulShape product_shape(const Op& op, ValueSpan values);
kernels::LinearCrossEntropyShape head_shape(const Op& op, ValueSpan values);
// For an op with Prepared::kAttention, where all that it does can be prepared: no dropout, no
// biases.
std::optional<kernels::AttentionShape> attention_shape(const Op& op, ValueSpan values);

}  // namespace tessera
