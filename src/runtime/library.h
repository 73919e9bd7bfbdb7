// The kernels' side of a program: prepared products by shape, made once and shared, and what the
// library asks of the compiler (workspaces, packed weights) as its Target.
#pragma once

#include <memory>
#include <vector>

#include "compile/target.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/matmul.h"

namespace tessera {

class Library {
 public:
  Library(const CpuFeatures& cpu, int threads) : cpu_(cpu), threads_(threads) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  int threads() const { return threads_; }
  const CpuFeatures& cpu() const { return cpu_; }
  const kernels::Matmul& product(const kernels::MatmulShape& shape);
  const kernels::LinearCrossEntropy& head(const kernels::LinearCrossEntropyShape& shape);

  // Refers to this library: it must outlive the target.
  Target target();

 private:
  CpuFeatures cpu_;
  int threads_;
  std::vector<std::pair<kernels::MatmulShape, std::unique_ptr<kernels::Matmul>>> products_;
  std::vector<
      std::pair<kernels::LinearCrossEntropyShape, std::unique_ptr<kernels::LinearCrossEntropy>>>
      heads_;
};

// The shape of the product that a matmul, matmul_grad_input, matmul_grad_weight or pack op makes.
kernels::MatmulShape product_shape(const Op& op, std::span<const Value> values);
kernels::LinearCrossEntropyShape head_shape(const Op& op, std::span<const Value> values);

}  // namespace tessera
