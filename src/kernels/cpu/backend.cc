// The CPU backend: kernels run synchronously, on host memory.
#include "kernels/backend.h"

#include <algorithm>

namespace tessera::kernels {

std::unique_ptr<Arena> CpuBackend::arena(std::string name, int64_t bytes) const {
  return host_arena(std::move(name), bytes);
}

int64_t CpuBackend::alignment() const { return 64; }  // a cache line or an AVX-512 vector

std::unique_ptr<Gemm> CpuBackend::product(const MatmulShape& shape) const {
  return std::make_unique<Matmul>(shape, cpu_, threads());
}

std::unique_ptr<LmHead> CpuBackend::head(const LinearCrossEntropyShape& shape) const {
  return std::make_unique<LinearCrossEntropy>(shape, cpu_, threads());
}

std::unique_ptr<Experts> CpuBackend::experts(const ExpertsShape& shape) const {
  return std::make_unique<CpuExperts>(shape, cpu_, threads());
}

// Uses the minimum instead of the mean, because other load on the machine only slows runs down.
double CpuBackend::best_seconds(const std::function<void(Stream)>& work,
                                const std::function<double()>& now_s, double seconds) const {
  work({});  // touches the memory
  double best = 0;
  for (const double first = now_s();;) {
    const double began = now_s();
    work({});
    const double over = now_s();
    best = best == 0 ? over - began : std::min(best, over - began);
    if (over - first >= seconds) return best;
  }
}

double CpuBackend::matrix_rate(DType type, const std::function<double()>&) const {
  return measure_matrix_rate(type, cpu_, threads());
}

const KernelTable& cpu_kernels() {
  static constexpr KernelTable kTable = table_of<Cpu>(AllArgs());
  return kTable;
}

}  // namespace tessera::kernels
