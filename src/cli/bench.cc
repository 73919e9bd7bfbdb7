// tessera bench: what this machine can do, measured, into hardware.yaml.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/tree.h"
#include "cli/bench_rates.h"
#include "cli/verbs.h"
#include "plan/hardware.h"
#include "tensor/cpu_features.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

// The model whose products are measured beside 2048^3: Pythia-70M, 4 x 512 tokens.
constexpr int64_t kTokens = 2048, kHidden = 512, kVocabulary = 50304;

struct Measured {
  DType type;
  std::vector<std::pair<ProductCase, ProductRate>> products;
  double best = 0;  // operations a second
};

Measured measure_type(DType type, const CpuFeatures& cpu, double seconds, bool quick) {
  Measured m{type, {}, 0};
  const std::vector<ProductCase> cases = product_cases(kTokens, kHidden, kVocabulary);
  const bool shows = isatty(STDERR_FILENO) == 1;
  for (const ProductCase& c : cases) {
    if (quick && c.name != "2048 cubed" && c.name != "up") continue;
    if (shows)
      fmt::print(stderr, "\r\x1b[Kmeasuring {} {} {}", name_of(type), c.name, name_of(c.kind));
    m.products.emplace_back(c, measure_product(c, type, cpu, cpu.cores, seconds));
    m.best = std::max(m.best, m.products.back().second.best());
  }
  if (shows) fmt::print(stderr, "\r\x1b[K");
  return m;
}

// What was measured needs no share of a specification. Ranks of one machine exchange messages by
// copies through memory: into a buffer and out of it.
constexpr double kMeasured = 1, kCopies = 4, kPollingS = 1e-4;

double best_of(const std::vector<Measured>& types, DType type) {
  for (const Measured& m : types)
    if (m.type == type) return m.best;
  return 0;
}

Hardware as_hardware(const CpuFeatures& cpu, const std::vector<Measured>& types,
                     const MemoryRate& memory) {
  Hardware h;
  h.name = "this machine";
  h.version = version();
  DeviceFigures& d = h.device;
  d.name = cpu.model;
  d.kind = "cpu";
  d.memory_bytes = static_cast<double>(cpu.memory_bytes);
  d.memory_bytes_per_s = memory.triad;
  d.bf16_flops_per_s = best_of(types, DType::kBF16);
  d.fp32_flops_per_s = best_of(types, DType::kF32);
  d.memory_efficiency = d.matrix_efficiency = kMeasured;
  d.outside_bytes = static_cast<double>(kOutsideBytes);
  for (const Measured& m : types)
    for (const auto& [c, rate] : m.products)
      d.products.push_back({std::string(name_of(m.type)), name_of(c.kind), c.m, c.n, c.k,
                            std::max(rate.plain, rate.packed)});
  h.node.devices = 1;
  h.node.bytes_per_s = h.network.bytes_per_s = memory.copy / kCopies;
  h.node.efficiency = h.network.efficiency = kMeasured;
  h.node.latency_s = h.network.latency_s = kPollingS;
  return h;
}

void print_type(const Measured& m) {
  fmt::print("\n{} products: best {:.1f} GFLOP/s. Shares of it:\n", name_of(m.type), m.best / 1e9);
  fmt::print("  {:12} {:16} {:>22}  {:>6} {:>7} {:>9}\n", "", "", "m x n x k", "plain", "packed",
             "OpenBLAS");
  const auto share = [&](double rate) {
    return rate > 0 ? fmt::format("{:.0f} %", 100 * rate / m.best) : std::string("-");
  };
  for (const auto& [c, rate] : m.products) {
    fmt::print("  {:12} {:16} {:>22}  {:>6} {:>7} {:>9}\n", c.name, name_of(c.kind),
               fmt::format("{} x {} x {}", c.m, c.n, c.k), share(rate.plain), share(rate.packed),
               share(rate.other));
  }
}

}  // namespace

int verb_bench(Args args) {
  std::string out;
  bool quick = false, json = false;
  Arguments arguments("bench",
                      "Measures the matrix rate by type and shape and the memory bandwidth.",
                      "tessera bench --out hardware.yaml");
  arguments.option(out, "--out", "FILE", "where to write what was measured, as YAML");
  arguments.flag(quick, "--quick", "a few shapes only, in about three seconds");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  const CpuFeatures cpu = read_cpu_features();
  const double seconds = quick ? 0.1 : 0.3;
  std::vector<Measured> types;
  for (const DType type : {DType::kF32, DType::kBF16}) {
    types.push_back(measure_type(type, cpu, seconds, quick));
  }
  const MemoryRate memory = measure_memory(cpu, cpu.cores, seconds);
  const Tree tree = to_tree(as_hardware(cpu, types, memory));
  if (!out.empty()) {
    write_file(out,
               "# What this machine can do, measured by tessera bench: for tessera plan RUN "
               "--cluster FILE.\n" +
                   to_yaml(tree));
  }
  if (json) {
    fmt::print("{}\n", to_json(tree));
    return 0;
  }
  fmt::print("{}, {} cores\n", cpu.model, cpu.cores);
  fmt::print("memory: read {:.1f} GB/s, copy {:.1f}, triad {:.1f}\n", memory.read / 1e9,
             memory.copy / 1e9, memory.triad / 1e9);
  for (const Measured& m : types) print_type(m);
  if (!cpu.bf16_products()) {
    fmt::print("\nThis CPU multiplies no bf16: such operands are widened and multiplied in f32.\n");
  }
  if (!out.empty()) fmt::print("\nWritten to {}\n", out);
  return 0;
}

}  // namespace tessera
