// A kernel that is made ready once for a shape: a library's plan, an algorithm that was measured.
// What it computes is in the header of its kind: Product (kernels/matmul.h), Head
// (kernels/linear_cross_entropy.h), GpuAttention (kernels/gpu_attention.h).
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace tessera::kernels {

class PreparedKernel {
 public:
  PreparedKernel() = default;
  PreparedKernel(const PreparedKernel&) = delete;
  PreparedKernel& operator=(const PreparedKernel&) = delete;
  virtual ~PreparedKernel() = default;

  // What a run needs. On the CPU it is aligned to 64 bytes, on a GPU to kBlasWorkspaceAlignment.
  virtual int64_t workspace_bytes() const = 0;

 protected:
  PreparedKernel(PreparedKernel&&) = default;
  PreparedKernel& operator=(PreparedKernel&&) = default;
};

}  // namespace tessera::kernels
