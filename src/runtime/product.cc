#include "runtime/product.h"

namespace tessera {

Product::Product(const kernels::MatmulShape& shape, const CpuFeatures& cpu, int threads,
                 const kernels::GpuBlas* blas) {
  if (blas)
    gpu_.emplace(shape, *blas);
  else
    cpu_.emplace(shape, cpu, threads);
}

int64_t Product::workspace_bytes() const {
  return cpu_ ? cpu_->workspace_bytes() : gpu_->workspace_bytes();
}

void Product::run(Stream s, const void* a, const void* b, void* c, void* workspace) const {
  if (cpu_)
    cpu_->run(a, b, c, workspace);
  else
    gpu_->run(s, a, b, c, workspace);
}

Head::Head(const kernels::LinearCrossEntropyShape& shape, const CpuFeatures& cpu, int threads,
           const kernels::GpuBlas* blas) {
  if (blas)
    gpu_.emplace(shape, *blas);
  else
    cpu_.emplace(shape, cpu, threads);
}

int64_t Head::workspace_bytes() const {
  return cpu_ ? cpu_->workspace_bytes() : gpu_->workspace_bytes();
}

void Head::run(Stream s, const kernels::LinearCrossEntropyOperands& operands,
               void* workspace) const {
  if (cpu_)
    cpu_->run(operands, workspace);
  else
    gpu_->run(s, operands, workspace);
}

}  // namespace tessera
