// Prepared products and heads, on the device of the run.
#pragma once

#include <optional>

#include "kernels/gpu_products.h"

namespace tessera {

class Product {
 public:
  // `blas`: of the GPU; nullptr: on the CPU.
  Product(const kernels::MatmulShape& shape, const CpuFeatures& cpu, int threads,
          const kernels::GpuBlas* blas);

  int64_t workspace_bytes() const;
  int64_t packed_bytes() const { return cpu_ ? cpu_->packed_bytes() : 0; }
  void pack(const void* b, void* packed) const { cpu_->pack(b, packed); }
  void run(Stream s, const void* a, const void* b, void* c, void* workspace) const;

 private:
  std::optional<kernels::Matmul> cpu_;
  std::optional<kernels::GpuMatmul> gpu_;
};

class Head {
 public:
  Head(const kernels::LinearCrossEntropyShape& shape, const CpuFeatures& cpu, int threads,
       const kernels::GpuBlas* blas);

  int64_t workspace_bytes() const;
  void run(Stream s, const kernels::LinearCrossEntropyOperands& operands, void* workspace) const;

 private:
  std::optional<kernels::LinearCrossEntropy> cpu_;
  std::optional<kernels::GpuLinearCrossEntropy> gpu_;
};

}  // namespace tessera
