// The GPU backend. Measured times are those of the device: the timed work is repeated in one graph,
// or between two readings of the host clock, so that launch time is negligible.
#include "kernels/gpu_backend.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/gpu_experts.h"

namespace tessera::kernels {
namespace {

// Returns the seconds of one square GEMM by the host clock. A short one is repeated, so that launch
// time is negligible.
double square_product_s(DType type, const GpuBlas& blas, int64_t size,
                        const std::function<double()>& now_s) {
  constexpr double kLong = 0.01;
  constexpr int64_t kRepeats = 20;
  const int64_t bytes = size * size * 4;
  const GpuMatmul product(
      {.m = size, .n = size, .k = size, .transpose_b = true, .a = type, .b = type, .c = type},
      blas);
  const DeviceBuffer memory("measuring GEMMs", 3 * bytes + product.workspace_bytes());
  std::byte* const at = memory.data();
  const GpuStream stream;
  for (std::byte* const operand : {at, at + bytes})
    fill_with_noise(stream.get(), operand, type, size * size);
  const auto seconds = [&](int64_t times) {
    const double began = now_s();
    for (int64_t i = 0; i < times; ++i)
      product.run({stream.get(), at + 3 * bytes}, {at, at + bytes, at + 2 * bytes});
    synchronise(stream.get());
    return (now_s() - began) / static_cast<double>(times);
  };
  const double first = seconds(1);  // loads the kernel
  return first > kLong ? first : seconds(kRepeats);
}

std::string machine_of(const GpuFeatures& gpu, const GpuBlas& blas) {
  return fmt::format("{} sm_{} cuBLASLt {}{}", gpu.model, gpu.architecture, blas.version(),
                     blas.tf32() ? " TF32" : "");
}

}  // namespace

GpuBackend::GpuBackend(int threads, const GpuFeatures& gpu, bool tf32)
    : Backend(threads), features_(gpu), blas_(tf32), choices_(machine_of(gpu, blas_)) {
  blas_.choose_by(choices_);
}

std::unique_ptr<Arena> GpuBackend::arena(std::string name, int64_t bytes) const {
  return gpu_arena(std::move(name), bytes);
}

std::unique_ptr<Gemm> GpuBackend::product(const MatmulShape& shape) const {
  return std::make_unique<GpuMatmul>(shape, blas_);
}

std::unique_ptr<LmHead> GpuBackend::head(const LinearCrossEntropyShape& shape) const {
  return std::make_unique<GpuLinearCrossEntropy>(shape, blas_);
}

std::unique_ptr<Experts> GpuBackend::experts(const ExpertsShape& shape) const {
  return std::make_unique<GpuExperts>(shape);
}

std::unique_ptr<GpuAttention> GpuBackend::attention(const AttentionShape& shape) {
  if (attention_by_.choices == nullptr || !GpuAttention::may_choose(shape)) return nullptr;
  if (opens_dnn_) {
    opens_dnn_ = false;
    try {
      dnn_ = std::make_unique<CudaDnn>();
      attention_by_.dnn = dnn_.get();
    } catch (const Error& e) {
      attention_by_.say(fmt::format("attention by our own kernels: {}", e.what()));
    }
  }
  return std::make_unique<GpuAttention>(shape, attention_by_);
}

void GpuBackend::measure_products(std::function<double()> now_s) {
  attention_by_.now_s = now_s;
  blas_.choose_by(choices_, std::move(now_s));
}

void GpuBackend::choose_attention(std::function<void(const std::string&)> say) {
  attention_by_.choices = &choices_;
  attention_by_.say = std::move(say);
  opens_dnn_ = true;
}

// Several runs are captured in one graph, so that they share the time of one launch.
double GpuBackend::best_seconds(const std::function<void(Stream)>& work,
                                const std::function<double()>& now_s, double seconds) const {
  constexpr int kRunsOfGraph = 10;
  const GpuStream stream;
  const Stream s = stream.get();
  synchronise({});  // the operands may have been uploaded in the default stream
  work(s);          // loads the code
  GpuGraph graph;
  graph.begin(s);
  for (int i = 0; i < kRunsOfGraph; ++i) work(s);
  graph.end(s);
  synchronise(s);
  double best = 0;
  for (const double first = now_s();;) {
    const double began = now_s();
    graph.launch(s);
    synchronise(s);
    const double over = now_s(), one = (over - began) / kRunsOfGraph;
    best = best == 0 ? one : std::min(best, one);
    if (over - first >= seconds) return best;
  }
}

// Increases the size as long as a GEMM is fast and fits in free memory.
double GpuBackend::matrix_rate(DType type, const std::function<double()>& now_s) const {
  constexpr int64_t kLeast = 512, kMost = 4096, kWorkspace = 64 << 20;
  constexpr double kLong = 0.1;
  const GpuBlas blas(blas_.tf32());
  double rate = 0;
  for (int64_t size = kLeast; size <= kMost; size *= 2) {
    if (size > kLeast && 3 * size * size * 4 + kWorkspace > free_gpu_bytes()) break;
    const double seconds = square_product_s(type, blas, size, now_s);
    rate = std::max(rate, 2.0 * static_cast<double>(size * size * size) / seconds);
    if (seconds > kLong) break;
  }
  return rate;
}

std::unique_ptr<Backend> backend_of(const CpuFeatures& cpu, int threads,
                                    const std::optional<GpuFeatures>& gpu, bool tf32) {
  if (gpu) return std::make_unique<GpuBackend>(threads, *gpu, tf32);
  return std::make_unique<CpuBackend>(cpu, threads);
}

}  // namespace tessera::kernels
