// Matrix products and the head's loss on a GPU, by cuBLASLt: as Matmul and LinearCrossEntropy
// (kernels/matmul.h, kernels/linear_cross_entropy.h), enqueued in a stream. Sums are f32.
#pragma once

#include <functional>
#include <memory>

#include "kernels/linear_cross_entropy.h"
#include "kernels/matmul.h"
#include "kernels/product_choices.h"
#include "tensor/gpu.h"

namespace tessera::kernels {

// Bytes. cuBLASLt: "The workspace pointer must be aligned to at least a multiple of 256 bytes."
constexpr int64_t kBlasWorkspaceAlignment = 256;

// The library, found when the first of these is made: a program that computes on the CPU pays
// nothing for it. Throws Error where it is not installed.
class GpuBlas {
 public:
  // tf32: products of f32 read their operands with 10 bits of mantissa, which tensor cores take.
  explicit GpuBlas(bool tf32 = false);
  ~GpuBlas();
  GpuBlas(const GpuBlas&) = delete;
  GpuBlas& operator=(const GpuBlas&) = delete;

  int64_t version() const;  // of the library: 130000
  bool tf32() const { return tf32_; }

  // From now on a product takes the algorithm that `choices`, which outlive this, have for it.
  // Where they have none and there is a clock, some of those that the library proposes are
  // measured, for which the device's memory must have room for the product's operands, and the
  // fastest is added. Without either the library's first proposal is taken.
  void choose_by(ProductChoices& choices, std::function<double()> now_s = {}) {
    choices_ = &choices;
    now_s_ = std::move(now_s);
  }
  ProductChoices* choices() const { return choices_; }
  const std::function<double()>& now_s() const { return now_s_; }

  struct Handle;
  const Handle& handle() const { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
  bool tf32_;
  ProductChoices* choices_ = nullptr;
  std::function<double()> now_s_;
};

// Fills device memory with random numbers, nearly normal and of unit variance, of this type (f32,
// bf16 or f16): operands for a measurement. A device computes faster on zeros than on the numbers
// of a model. Returns when they are there.
void fill_with_noise(Stream s, void* to, DType type, int64_t elements);

class GpuMatmul final : public Product {
 public:
  // `blas` outlives it. A, B and C start at multiples of 16 bytes, the workspace at a multiple of
  // kBlasWorkspaceAlignment.
  GpuMatmul(const MatmulShape& shape, const GpuBlas& blas);
  ~GpuMatmul() override;
  GpuMatmul(GpuMatmul&&) noexcept;
  GpuMatmul& operator=(GpuMatmul&&) noexcept;

  int64_t workspace_bytes() const override;
  int64_t packed_bytes() const override { return 0; }
  void pack(const void* b, void* packed) const override;  // never: nothing is packed on a GPU
  // A fresh run takes the algorithm that `choices` have for the shape without `accumulate`, or else
  // that of the shape.
  void run(const Launch& l, const MatmulOperands& operands) const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

class GpuLinearCrossEntropy final : public Head {
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
