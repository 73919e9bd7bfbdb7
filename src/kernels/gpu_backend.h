// The GPU backend, and the choice of its kernels: GEMMs by cuBLASLt, attention by our own kernels
// or cuDNN.
#pragma once

#include "kernels/backend.h"
#include "kernels/gpu_products.h"
#include "kernels/kernel_choices.h"

namespace tessera::kernels {

class GpuBackend final : public Backend {
 public:
  // `gpu` is the device that use_gpu() selected for this process. tf32: see GpuBlas.
  GpuBackend(int threads, const GpuFeatures& gpu, bool tf32);

  std::string model() const override { return features_.model; }
  std::string device_id() const override { return features_.uuid; }
  bool has_streams() const override { return true; }
  std::unique_ptr<Arena> arena(std::string name, int64_t bytes) const override;
  int64_t alignment() const override { return kBlasWorkspaceAlignment; }
  const KernelTable& table() const override { return gpu_kernels(); }
  std::unique_ptr<Gemm> product(const MatmulShape& shape) const override;
  std::unique_ptr<LmHead> head(const LinearCrossEntropyShape& shape) const override;
  std::unique_ptr<Experts> experts(const ExpertsShape& shape) const override;
  std::unique_ptr<GpuAttention> attention(const AttentionShape& shape) override;
  double best_seconds(const std::function<void(Stream)>& work, const std::function<double()>& now_s,
                      double seconds) const override;
  double matrix_rate(DType type, const std::function<double()>& now_s) const override;
  GpuBackend* gpu() override { return this; }

  const GpuFeatures& features() const { return features_; }

  // Returns the kernel choices for GEMMs that are prepared later. With a clock, shapes without a
  // choice are measured; without a clock, nothing is measured. See GpuBlas::choose_by.
  KernelChoices& choices() { return choices_; }
  void measure_products(std::function<double()> now_s);
  // Makes attention that cuDNN supports use the stored choices, or measurements (measure_products).
  // cuDNN is opened for the first such shape. `say` receives a log line if cuDNN is opened, cannot
  // be opened, or is rejected for a shape.
  void choose_attention(std::function<void(const std::string&)> say);

 private:
  GpuFeatures features_;
  GpuBlas blas_;
  KernelChoices choices_;
  std::unique_ptr<CudaDnn> dnn_;
  AttentionChoosing attention_by_;
  bool opens_dnn_ = false;  // choose_attention was called, and cuDNN was not opened yet
};

}  // namespace tessera::kernels
