// Measures the matrix rate and the memory bandwidth of this machine. The fastest of repeated calls
// counts: interruptions by other processes only ever slow a call down.
#include "measure/device_rates.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "kernels/matmul.h"
#include "tensor/tensor.h"

namespace tessera::measure {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the shortest of the calls that fit in `seconds`. The first call only warms up, and at
// least one more is measured.
double shortest_call(double seconds, const std::function<void()>& call) {
  call();
  const Clock::time_point start = Clock::now();
  double best = 1e30;
  for (;;) {
    const Clock::time_point before = Clock::now();
    call();
    const Clock::time_point after = Clock::now();
    best = std::min(best, std::chrono::duration<double>(after - before).count());
    if (std::chrono::duration<double>(after - start).count() > seconds) return best;
  }
}

HostBuffer operand(int64_t elements, DType type, int threads) {
  HostBuffer b("benchmark operand", elements * size_of(type));
// Every thread first touches the pages that it will read, which places them in its NUMA node. The
// numbers are small and not zero, so no denormal slows the arithmetic.
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < elements; ++i) {
    const float x = 0.5f + static_cast<float>(i % 7) * 0.125f;
    if (type == DType::kF32) reinterpret_cast<float*>(b.data())[i] = x;
    if (type == DType::kBF16) reinterpret_cast<BF16*>(b.data())[i] = BF16(x);
  }
  return b;
}

// OpenBLAS, if it is installed. It is loaded only here, as a reference for the machine's rate; the
// trainer does not use it.
class OpenBlas {
 public:
  OpenBlas() : library_(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
    set_threads_ = reinterpret_cast<SetThreads>(dlsym(library_, "openblas_set_num_threads"));
  }
  ~OpenBlas() {
    if (library_ != nullptr) dlclose(library_);
  }
  OpenBlas(const OpenBlas&) = delete;
  OpenBlas& operator=(const OpenBlas&) = delete;

  explicit operator bool() const { return sgemm_ != nullptr && set_threads_ != nullptr; }

  void run(const kernels::MatmulShape& s, const HostBuffer& a, const HostBuffer& b,
           const HostBuffer& c, int threads) const {
    constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;  // as in cblas.h
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    set_threads_(threads);
    // The leading dimension of a row-major operand is the length of its stored rows.
    sgemm_(kRowMajor, s.transpose_a ? kTransposed : kPlain, s.transpose_b ? kTransposed : kPlain, m,
           n, k, 1.0f, reinterpret_cast<const float*>(a.data()), s.transpose_a ? m : k,
           reinterpret_cast<const float*>(b.data()), s.transpose_b ? k : n,
           s.accumulate ? 1.0f : 0.0f, reinterpret_cast<float*>(c.data()), n);
  }

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using SetThreads = void (*)(int);
  void* library_;
  Sgemm sgemm_ = nullptr;
  SetThreads set_threads_ = nullptr;
};

kernels::MatmulShape shape_of(const ProductCase& c, DType type) {
  kernels::MatmulShape s{.m = c.m, .n = c.n, .k = c.k, .a = type, .b = type};
  // Weights are stored [outputs, inputs]: forward computes x W^T, the input's gradient dy W, and
  // the weight's gradient dy^T x, which is added to the sum over micro-batches.
  s.transpose_b = c.kind == GemmKind::kForward;
  s.transpose_a = s.accumulate = c.kind == GemmKind::kWeightGradient;
  if (!s.accumulate) s.c = type;
  return s;
}

}  // namespace

std::vector<ProductCase> product_cases(int64_t tokens, int64_t hidden, int64_t vocabulary) {
  struct Layer {
    const char* name;
    int64_t rows, outputs, inputs;
  };
  constexpr int64_t kChunk = 512;  // the LM head processes tokens in chunks
  const Layer layers[] = {{"qkv", tokens, 3 * hidden, hidden},
                          {"projection", tokens, hidden, hidden},
                          {"up", tokens, 4 * hidden, hidden},
                          {"down", tokens, hidden, 4 * hidden},
                          {"head", std::min(tokens, kChunk), vocabulary, hidden}};
  std::vector<ProductCase> cases{{"2048 cubed", GemmKind::kInputGradient, 2048, 2048, 2048}};
  for (const Layer& l : layers) {
    cases.push_back({l.name, GemmKind::kForward, l.rows, l.outputs, l.inputs});
    cases.push_back({l.name, GemmKind::kInputGradient, l.rows, l.inputs, l.outputs});
    cases.push_back({l.name, GemmKind::kWeightGradient, l.outputs, l.inputs, l.rows});
  }
  return cases;
}

double ProductRate::best() const { return std::max({plain, packed, other}); }

ProductRate measure_product(const ProductCase& c, DType type, const CpuFeatures& cpu, int threads,
                            double seconds) {
  kernels::MatmulShape s = shape_of(c, type);
  // A multiplication and an addition per element of the inner dimension.
  const double operations =
      2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  const HostBuffer a = operand(c.m * c.k, type, threads), b = operand(c.k * c.n, type, threads);
  const HostBuffer result("benchmark result", c.m * c.n * size_of(s.c));
  result.touch(threads);
  ProductRate rate;
  const kernels::Matmul plain(s, cpu, threads);
  const HostBuffer room("benchmark workspace", plain.workspace_bytes());
  rate.plain = operations / shortest_call(seconds, [&] {
                 plain.run({.workspace = room.data()}, {a.data(), b.data(), result.data()});
               });
  // The second operand of a weight gradient is an activation, which is used once: packing would not
  // pay.
  s.packed_b = c.kind != GemmKind::kWeightGradient;
  const kernels::Matmul packing(s, cpu, threads);
  if (packing.packed_bytes() > 0) {
    const HostBuffer packed("benchmark packed operand", packing.packed_bytes());
    const HostBuffer space("benchmark workspace", packing.workspace_bytes());
    packing.pack(b.data(), packed.data());
    rate.packed =
        operations / shortest_call(seconds, [&] {
          packing.run({.workspace = space.data()}, {a.data(), packed.data(), result.data()});
        });
  }
  if (type != DType::kF32) return rate;
  const OpenBlas blas;
  if (!blas) return rate;
  rate.other = operations / shortest_call(seconds, [&] { blas.run(s, a, b, result, threads); });
  return rate;
}

MemoryRate measure_memory(const CpuFeatures& cpu, int threads, double seconds) {
  // Each array has four times the size of the last-level cache, so almost none of it stays there.
  const int64_t bytes = std::clamp<int64_t>(4 * cpu.l3_bytes, 64 << 20, 1 << 30);
  const int64_t n = bytes / 8;
  const HostBuffer x("benchmark array", bytes), y("benchmark array", bytes),
      z("benchmark array", bytes);
  auto* const px = reinterpret_cast<uint64_t*>(x.data());
  auto* const py = reinterpret_cast<uint64_t*>(y.data());
  auto* const pz = reinterpret_cast<uint64_t*>(z.data());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n; ++i) px[i] = py[i] = pz[i] = i;
  // The sum is stored, so the compiler cannot remove the loop.
  volatile uint64_t sink = 0;
  const double read_s = shortest_call(seconds, [&] {
    uint64_t sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += px[i];
    sink = sum;
  });
  const double copy_s = shortest_call(seconds, [&] {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; ++i) py[i] = px[i];
  });
  const double triad_s = shortest_call(seconds, [&] {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; ++i) pz[i] = px[i] + 3 * py[i];
  });
  const auto size = static_cast<double>(bytes);
  // Bytes are counted as by STREAM: 1 array read; 1 read and 1 written; 2 read and 1 written.
  return {size / read_s, 2 * size / copy_s, 3 * size / triad_s};
}

}  // namespace tessera::measure
