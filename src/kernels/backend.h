// The device backend of a run: the memory, the kernels and the prepared kernels of one kind of
// device. It is created once, from run.device. A new kind of device adds a class here and a
// directory of kernels.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/experts.h"
#include "kernels/gpu_attention.h"
#include "kernels/kernels.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/matmul.h"
#include "tensor/arena.h"
#include "tensor/cpu_features.h"
#include "tensor/gpu.h"

namespace tessera::kernels {

class GpuBackend;

class Backend {
 public:
  explicit Backend(int threads) : threads_(threads) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  int threads() const { return threads_; }  // host threads for CPU kernels
  virtual std::string model() const = 0;    // name of the device in reports: "AMD EPYC 9354"
  // Identifies the device among those of its host. Empty for the CPU, which ranks share.
  virtual std::string device_id() const = 0;
  // Returns true if kernels are enqueued in streams, false if a launch returns after the kernel
  // ran.
  virtual bool has_streams() const = 0;

  virtual std::unique_ptr<Arena> arena(std::string name, int64_t bytes) const = 0;
  virtual int64_t alignment() const = 0;  // bytes; for buffers and workspaces in the arena

  virtual const KernelTable& table() const = 0;
  virtual std::unique_ptr<Gemm> product(const MatmulShape& shape) const = 0;
  virtual std::unique_ptr<LmHead> head(const LinearCrossEntropyShape& shape) const = 0;
  virtual std::unique_ptr<Experts> experts(const ExpertsShape& shape) const = 0;
  // Returns nullptr if the kernel of the table computes attention of this shape.
  virtual std::unique_ptr<GpuAttention> attention(const AttentionShape&) { return nullptr; }

  // Returns the time in seconds of the fastest of several runs of `work`, which is repeated for
  // `seconds`, at least once. Launch time is not counted.
  virtual double best_seconds(const std::function<void(Stream)>& work,
                              const std::function<double()>& now_s, double seconds) const = 0;
  // Measures a few large GEMMs of this dtype and returns the FLOP/s of the fastest. This is the
  // "matrix rate" that the speed of a run is compared with.
  virtual double matrix_rate(DType type, const std::function<double()>& now_s) const = 0;

  // Returns the settings that only a GPU has, or nullptr.
  virtual GpuBackend* gpu() { return nullptr; }

 private:
  int threads_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuFeatures& cpu, int threads) : Backend(threads), cpu_(cpu) {}

  std::string model() const override { return cpu_.model; }
  std::string device_id() const override { return {}; }
  bool has_streams() const override { return false; }
  std::unique_ptr<Arena> arena(std::string name, int64_t bytes) const override;
  int64_t alignment() const override;
  const KernelTable& table() const override { return cpu_kernels(); }
  std::unique_ptr<Gemm> product(const MatmulShape& shape) const override;
  std::unique_ptr<LmHead> head(const LinearCrossEntropyShape& shape) const override;
  std::unique_ptr<Experts> experts(const ExpertsShape& shape) const override;
  double best_seconds(const std::function<void(Stream)>& work, const std::function<double()>& now_s,
                      double seconds) const override;
  double matrix_rate(DType type, const std::function<double()>& now_s) const override;

 private:
  CpuFeatures cpu_;
};

// Returns the backend of the GPU that use_gpu() chose for this process, or the CPU backend without
// one. tf32: see GpuBlas.
std::unique_ptr<Backend> backend_of(const CpuFeatures& cpu, int threads,
                                    const std::optional<GpuFeatures>& gpu = {}, bool tf32 = false);

}  // namespace tessera::kernels
