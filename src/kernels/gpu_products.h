// GEMMs and the fused head and loss on a GPU by cuBLASLt, enqueued in a stream: the counterparts of
// Matmul and LinearCrossEntropy (kernels/matmul.h, kernels/linear_cross_entropy.h). Sums are f32.
#pragma once

#include <functional>
#include <memory>

#include "kernels/kernel_choices.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/matmul.h"
#include "tensor/gpu.h"

namespace tessera::kernels {

// Bytes. cuBLASLt: "The workspace pointer must be aligned to at least a multiple of 256 bytes."
constexpr int64_t kBlasWorkspaceAlignment = 256;

// The cuBLASLt library. It is opened when the first object is created, so a program that computes
// on the CPU does not load it. The constructor throws Error if the library is not installed.
class GpuBlas {
 public:
  // tf32: f32 GEMMs read their operands with 10 mantissa bits and use tensor cores.
  explicit GpuBlas(bool tf32 = false);
  ~GpuBlas();
  GpuBlas(const GpuBlas&) = delete;
  GpuBlas& operator=(const GpuBlas&) = delete;

  int64_t version() const;  // library version: 130000
  bool tf32() const { return tf32_; }

  // Makes GEMMs that are prepared later use the algorithms of `choices`, which must outlive this
  // object. For a shape without a choice, if there is a clock, some proposals of the library are
  // measured and the fastest is added to the choices; the device must have free memory for the
  // operands. Without a choice and a clock, the library's first proposal is used.
  void choose_by(KernelChoices& choices, std::function<double()> now_s = {}) {
    choices_ = &choices;
    now_s_ = std::move(now_s);
  }
  KernelChoices* choices() const { return choices_; }
  const std::function<double()>& now_s() const { return now_s_; }

  struct Handle;
  const Handle& handle() const { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
  bool tf32_;
  KernelChoices* choices_ = nullptr;
  std::function<double()> now_s_;
};

// Fills device memory with approximately normal numbers of unit variance in this type (f32, bf16 or
// f16), as operands for a measurement: a device computes faster on zeros than on the numbers of a
// model. Returns when the memory is filled.
void fill_with_noise(Stream s, void* to, DType type, int64_t elements);

class GpuMatmul final : public Gemm {
 public:
  // `blas` must outlive this object. A, B and C are aligned to 16 bytes, the workspace to
  // kBlasWorkspaceAlignment.
  GpuMatmul(const MatmulShape& shape, const GpuBlas& blas);
  ~GpuMatmul() override;
  GpuMatmul(GpuMatmul&&) noexcept;
  GpuMatmul& operator=(GpuMatmul&&) noexcept;

  int64_t workspace_bytes() const override;
  int64_t packed_bytes() const override { return 0; }
  void pack(const void* b, void* packed) const override;  // must not be called: packed_bytes() is 0
  // A fresh run uses the stored algorithm for the shape without `accumulate`, or, if there is none,
  // the algorithm for the shape itself.
  void run(const Launch& l, const MatmulOperands& operands) const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

class GpuLinearCrossEntropy final : public LmHead {
 public:
  GpuLinearCrossEntropy(const LinearCrossEntropyShape& shape, const GpuBlas& blas);
  ~GpuLinearCrossEntropy() override;

  int64_t workspace_bytes() const override;
  void run(const Launch& l, const LinearCrossEntropyOperands& operands) const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace tessera::kernels
