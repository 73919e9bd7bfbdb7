// The kernels' side of a program: prepared products by shape, made once and shared, and what the
// library asks of the compiler (workspaces, packed weights) as its Target.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"
#include "kernels/gpu_attention.h"
#include "kernels/kernels.h"
#include "runtime/product.h"

namespace tessera {

class Library {
 public:
  Library(const CpuFeatures& cpu, int threads) : cpu_(cpu), threads_(threads) {}
  // Of the device that use_gpu() made this process's own. tf32: see GpuBlas.
  Library(const CpuFeatures& cpu, int threads, const GpuFeatures& gpu, bool tf32 = false);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  int threads() const { return threads_; }
  const CpuFeatures& cpu() const { return cpu_; }
  bool on_gpu() const { return blas_ != nullptr; }
  const GpuFeatures& gpu() const { return gpu_; }
  bool tf32() const { return on_gpu() && blas_->tf32(); }
  // On a GPU: which algorithms products take that are made from now on. With a clock, those that
  // have none are measured; without, none is any more. See GpuBlas::choose_by.
  kernels::ProductChoices& choices() { return *choices_; }
  void measure_products(std::function<double()> now_s);
  // On a GPU: from now on attention that cuDNN could make is made by what the choices have for it,
  // or what is measured (measure_products). cuDNN is opened at the first of these; `say` hears it,
  // or why it cannot be, and why it is not taken for a shape.
  void choose_attention(std::function<void(const std::string&)> say);
  const kernels::Kernels& kernels() const { return *kernels_; }
  const Product& product(const kernels::MatmulShape& shape);
  const Head& head(const kernels::LinearCrossEntropyShape& shape);
  // For an op whose rule says Prepared::kAttention. nullptr: the table's function computes it.
  const kernels::GpuAttention* attention(const Op& op, ValueSpan values);

  // Refers to this library: it must outlive the target.
  Target target();

 private:
  int64_t workspace_bytes(const Op& op, ValueSpan values);

  CpuFeatures cpu_;
  int threads_;
  GpuFeatures gpu_;
  std::unique_ptr<kernels::GpuBlas> blas_;  // on a GPU alone, as is what follows
  std::unique_ptr<kernels::ProductChoices> choices_;
  const kernels::Kernels* kernels_ = &kernels::cpu_kernels();
  std::vector<std::pair<kernels::MatmulShape, std::unique_ptr<Product>>> products_;
  std::vector<std::pair<kernels::LinearCrossEntropyShape, std::unique_ptr<Head>>> heads_;
  std::unique_ptr<kernels::CudaDnn> dnn_;
  kernels::AttentionChoosing attention_by_;
  bool asks_dnn_ = false;  // choose_attention was called, and cuDNN is not open yet
  std::vector<std::pair<kernels::AttentionShape, std::unique_ptr<kernels::GpuAttention>>>
      attention_;
};

// The shape of the product that an op with Prepared::kProduct computes, or packs a weight for.
kernels::MatmulShape product_shape(const Op& op, ValueSpan values);
kernels::LinearCrossEntropyShape head_shape(const Op& op, ValueSpan values);
// For an op with Prepared::kAttention, where all that it does can be prepared: no dropout, no
// biases.
std::optional<kernels::AttentionShape> attention_shape(const Op& op, ValueSpan values);

}  // namespace tessera
