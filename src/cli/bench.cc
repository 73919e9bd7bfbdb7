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
#include "tensor/cpu_features.h"

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

Tree rounded(double x) { return Tree(static_cast<int64_t>(x)); }

Tree tree_of(const Measured& m) {
  Tree products = Tree::list();
  for (const auto& [c, rate] : m.products) {
    Tree t;
    t.set("name", Tree(c.name));
    t.set("kind", Tree(std::string(name_of(c.kind))));
    t.set("m", Tree(c.m));
    t.set("n", Tree(c.n));
    t.set("k", Tree(c.k));
    t.set("plain_flops_per_s", rounded(rate.plain));
    if (rate.packed > 0) t.set("packed_flops_per_s", rounded(rate.packed));
    if (rate.other > 0) t.set("openblas_flops_per_s", rounded(rate.other));
    products.push(std::move(t));
  }
  Tree all;
  all.set("flops_per_s", rounded(m.best));
  all.set("products", std::move(products));
  return all;
}

Tree tree_of(const CpuFeatures& cpu, const std::vector<Measured>& types, const MemoryRate& memory) {
  Tree device;
  device.set("name", Tree(cpu.model));
  device.set("kind", Tree(std::string("cpu")));
  device.set("cores", Tree(int64_t{cpu.cores}));
  device.set("memory_bytes", Tree(cpu.memory_bytes));
  device.set("l2_bytes", Tree(cpu.l2_bytes));
  device.set("l3_bytes", Tree(cpu.l3_bytes));
  device.set("bf16_products", Tree(cpu.bf16_products()));
  Tree rates;
  for (const Measured& m : types) rates.set(name_of(m.type), tree_of(m));
  Tree bandwidth;
  bandwidth.set("read_bytes_per_s", rounded(memory.read));
  bandwidth.set("copy_bytes_per_s", rounded(memory.copy));
  bandwidth.set("triad_bytes_per_s", rounded(memory.triad));
  Tree root;
  root.set("version", Tree(std::string(version())));
  root.set("device", std::move(device));
  root.set("matrix_rate", std::move(rates));
  root.set("memory_rate", std::move(bandwidth));
  return root;
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
  const Tree tree = tree_of(cpu, types, memory);
  if (!out.empty()) {
    write_file(out, "# What this machine can do, measured by tessera bench.\n" + to_yaml(tree));
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
