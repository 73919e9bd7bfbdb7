// tessera bench: measures the rates of this machine and writes them to hardware.yaml, which
// `tessera plan --cluster` reads.
//
// GEMMs, memory, the ops of a training step and the links are measured in turn, each by all ranks
// at the same time (after a barrier), because the ranks of a host share its caches and memory
// bandwidth: a rank that measured alone would report a rate that no training step reaches. Rank 0
// writes the means of all ranks.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/tree.h"
#include "cli/rank.h"
#include "cli/verbs.h"
#include "data/source_list.h"
#include "measure/device_rates.h"
#include "measure/kernel_rates.h"
#include "measure/link_rates.h"
#include "measure/op_rates.h"
#include "plan/hardware.h"
#include "tensor/cpu_features.h"
#include "train/run_device.h"
#include "train/run_programs.h"

namespace tessera::cli {
namespace {

// ---- tessera bench --kernels: the share of the device's limit that each kernel reaches.
//
// A kernel with little arithmetic is limited by memory: its share is its bytes per second divided
// by the rate of a plain copy, which is measured in the same process. Attention is limited by
// arithmetic and is compared with the fastest GEMM of its dtype (the roofline model, Williams et
// al. 2009, with measured roofs).

constexpr double kWanted = 0.8;  // expected share of the bandwidth
constexpr int64_t kCopied = 1ll << 30;

struct Limits {
  double copy = 0, bf16 = 0, f32 = 0;  // bytes per second, operations per second
};

Limits limits_of(const kernels::Backend& device, const CpuFeatures& cpu, double seconds) {
  return {device.has_streams() ? measure::measure_copy(device, kCopied, steady_s, seconds)
                               : measure::measure_memory(cpu, device.threads(), seconds).copy,
          device.matrix_rate(DType::kBF16, steady_s), device.matrix_rate(DType::kF32, steady_s)};
}

double share_of(const measure::KernelRate& r, const Limits& l) {
  if (r.flops == 0) return r.bytes / r.seconds / l.copy;
  return r.flops / r.seconds / (r.type == DType::kBF16 ? l.bf16 : l.f32);
}

Tree as_tree(const std::string& device, const Limits& l,
             const std::vector<measure::KernelRate>& rates) {
  Tree root, list = Tree::list();
  root.set("device", Tree(device));
  root.set("copy_bytes_per_s", Tree(l.copy));
  root.set("bf16_flops_per_s", Tree(l.bf16));
  root.set("fp32_flops_per_s", Tree(l.f32));
  for (const measure::KernelRate& r : rates) {
    Tree t;
    t.set("kernel", Tree(r.name));
    t.set("type", Tree(std::string(name_of(r.type))));
    t.set("bytes", Tree(r.bytes));
    t.set("flops", Tree(r.flops));
    t.set("seconds", Tree(r.seconds));
    t.set("share", Tree(share_of(r, l)));
    list.push(std::move(t));
  }
  root.set("kernels", std::move(list));
  return root;
}

void print_table(const std::string& device, const Limits& l,
                 const std::vector<measure::KernelRate>& rates) {
  fmt::print("{}: a copy reaches {:.1f} GB/s, GEMMs {:.0f} GFLOP/s in bf16, {:.0f} in f32\n",
             device, l.copy / 1e9, l.bf16 / 1e9, l.f32 / 1e9);
  fmt::print("  {:26} {:>5} {:>10} {:>9} {:>9}\n", "kernel", "type", "us", "GB/s", "share");
  int64_t memory = 0, reached = 0;
  for (const measure::KernelRate& r : rates) {
    const double share = share_of(r, l);
    const bool moves = r.flops == 0;
    memory += moves;
    reached += moves && share >= kWanted;
    fmt::print("{} {:26} {:>5} {:>10.1f} {:>9} {:>7.1f} % of {}\n",
               moves && share < kWanted ? '!' : ' ', r.name, name_of(r.type), 1e6 * r.seconds,
               moves ? fmt::format("{:.1f}", r.bytes / r.seconds / 1e9) : std::string("-"),
               100 * share, moves ? "the copy" : "the GEMM");
  }
  fmt::print("{} of {} kernels reach {:.0f} % of the copy's bandwidth; '!' marks the others\n",
             reached, memory, 100 * kWanted);
}

// Measures each kernel for `seconds` and prints one line per kernel: its share of the bandwidth of
// a copy, or (attention) of the rate of a GEMM of that dtype. With `json`, prints one object.
// `device` is auto, cpu or cuda.
int print_kernels(const std::string& device, int threads, double seconds, bool json) {
  const CpuFeatures cpu = read_cpu_features();
  const std::optional<GpuFeatures> gpu = gpu_named(device, *comm::self_world());
  const std::unique_ptr<kernels::Backend> backend = kernels::backend_of(cpu, threads, gpu);
  const Limits limits = limits_of(*backend, cpu, seconds);
  measure::KernelSizes sizes;
  if (!gpu) sizes.sequences = 4;  // about a minute on a CPU, and larger than its caches
  const std::vector<measure::KernelRate> rates =
      measure::measure_kernels(*backend, sizes, steady_s, seconds);
  const std::string name = backend->model();
  if (json)
    fmt::print("{}\n", to_json(as_tree(name, limits, rates)));
  else
    print_table(name, limits, rates);
  return 0;
}

// kSeconds is the time for one GEMM or one pass over memory. In addition to 2048^3, the GEMMs are
// those of Pythia-70M with 4 sequences of 512 tokens, because the shapes of a model's layers reach
// other rates than a cube.
constexpr double kSeconds[] = {0.02, 0.1, 0.3};  // indexed by Depth
constexpr int64_t kTokens = 2048, kHidden = 512, kVocabulary = 50304;

struct Measured {
  DType type;
  std::vector<std::pair<measure::ProductCase, measure::ProductRate>> products;
  double best = 0;  // operations per second
};

bool is_among(const measure::ProductCase& c, measure::Depth depth) {
  if (depth == measure::Depth::kRough) return c.name == "up" && c.kind == GemmKind::kForward;
  return depth == measure::Depth::kFull || c.name == "2048 cubed" || c.name == "up";
}

Measured measure_type(DType type, const CpuFeatures& cpu, int threads, measure::Depth depth) {
  Measured m{type, {}, 0};
  const double seconds = kSeconds[static_cast<size_t>(depth)];
  const std::vector<measure::ProductCase> cases =
      measure::product_cases(kTokens, kHidden, kVocabulary);
  const bool shows = isatty(STDERR_FILENO) == 1;
  for (const measure::ProductCase& c : cases) {
    if (!is_among(c, depth)) continue;
    if (shows)
      fmt::print(stderr, "\r\x1b[Kmeasuring {} {} {}", name_of(type), c.name, name_of(c.kind));
    m.products.emplace_back(c, measure::measure_product(c, type, cpu, threads, seconds));
    m.best = std::max(m.best, m.products.back().second.best());
  }
  if (shows) fmt::print(stderr, "\r\x1b[K");
  return m;
}

// All rates are measured, so the efficiencies, which reduce a vendor's figures, are 1. Links that
// cannot be measured (one rank, or one host) are assumed to be copies through memory: each byte is
// copied into a shared buffer and out of it, so it is read twice and written twice. The measured
// rate of a copy counts both directions, so the rate of the link is a quarter of it.
constexpr double kMeasured = 1, kCopies = 4, kPollingS = 1e-4;

struct MachineRates {
  std::vector<Measured> types;
  measure::MemoryRate memory;
  measure::StepRates steps;
  measure::LinkRates links;
};

double best_of(const std::vector<Measured>& types, DType type) {
  for (const Measured& m : types)
    if (m.type == type) return m.best;
  return 0;
}

// Replaces the rates of this rank with the means over all ranks.
void average(comm::World& world, MachineRates& r) {
  std::vector<double> x = {r.memory.read, r.memory.copy, r.memory.triad};
  for (const Measured& m : r.types) x.push_back(m.best);
  world.all_reduce(x, comm::Reduction::kSum);
  for (double& rate : x) rate /= static_cast<double>(world.size());
  r.memory = {x[0], x[1], x[2]};
  for (size_t t = 0; t < r.types.size(); ++t) r.types[t].best = x[3 + t];
}

plan::Hardware as_hardware(const CpuFeatures& cpu, const MachineRates& r) {
  plan::Hardware h;
  h.name = "this machine";
  h.version = version();
  plan::DeviceFigures& d = h.device;
  d.name = cpu.model;
  d.kind = plan::DeviceKind::kCpu;
  d.memory_bytes = static_cast<double>(cpu.memory_bytes);
  d.memory_bytes_per_s = r.memory.triad;
  d.bf16_flops_per_s = best_of(r.types, DType::kBF16);
  d.fp32_flops_per_s = best_of(r.types, DType::kF32);
  d.memory_efficiency = d.matrix_efficiency = kMeasured;
  d.outside_bytes = train::kOutsideBytes;
  d.products = r.steps.products;
  d.op_bytes_per_s = r.steps.op_bytes_per_s;
  d.op_flops_per_s = r.steps.op_flops_per_s;
  d.kernel_s = r.steps.kernel_s;
  h.node.devices = r.links.ranks_per_host;
  h.node.by_processor = true;
  const measure::LinkRate copies = {r.memory.copy / kCopies, kPollingS};
  const measure::LinkRate node = r.links.node.measured() ? r.links.node : copies;
  const measure::LinkRate network = r.links.network.measured() ? r.links.network : node;
  h.node.bytes_per_s = node.bytes_per_s;
  h.node.latency_s = node.latency_s;
  h.network.bytes_per_s = network.bytes_per_s;
  h.network.latency_s = network.latency_s;
  h.node.efficiency = h.network.efficiency = kMeasured;
  return h;
}

void print_type(const Measured& m) {
  fmt::print("\n{} GEMMs: best {:.1f} GFLOP/s. Shares of it:\n", name_of(m.type), m.best / 1e9);
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

void print_links(const measure::LinkRates& links) {
  const auto line = [](const char* where, const measure::LinkRate& r) {
    if (r.measured())
      fmt::print("links {}: {:.2f} GB/s, {:.0f} us per hop\n", where, r.bytes_per_s / 1e9,
                 1e6 * r.latency_s);
  };
  line("within a host", links.node);
  line("between hosts", links.network);
}

void print_ops(const measure::StepRates& steps) {
  fmt::print("\nother ops of a training step (GB/s; GFLOP/s), plus {:.1f} us per op:\n ",
             1e6 * steps.kernel_s);
  for (const auto* rates : {&steps.op_bytes_per_s, &steps.op_flops_per_s})
    for (const auto& [name, rate] : *rates) fmt::print(" {} {:.3g}", name, rate / 1e9);
  fmt::print("\n");
}

measure::Depth depth_named(bool rough, bool quick) {
  if (rough && quick) throw UsageError("bench: --rough and --quick are mutually exclusive.");
  return rough ? measure::Depth::kRough : quick ? measure::Depth::kQuick : measure::Depth::kFull;
}

void check_kernels(bool kernels, bool names_device, const std::string& out) {
  if (kernels && !out.empty())
    throw UsageError("bench --kernels does not write a file. Remove --out.");
  if (!kernels && names_device)
    throw UsageError("bench --device requires --kernels: GEMMs and links are those of the CPU.");
}

int bench_kernels(const std::string& device, int64_t threads, bool quick, bool json) {
  const int team = threads > 0 ? static_cast<int>(threads) : read_cpu_features().cores;
  return print_kernels(device, team, kSeconds[quick ? 0 : 1], json);
}

}  // namespace

int verb_bench(Args args) {
  std::string out, device = "auto";
  bool quick = false, rough = false, kernels = false, json = false;
  int64_t threads = 0;
  Arguments arguments("bench",
                      "Measure GEMMs, ops, memory and (under mpirun) the links between ranks.",
                      "mpirun -n 2 tessera bench --out hardware.yaml");
  arguments.option(out, "--out", "FILE", "YAML file for the results");
  arguments.option(threads, "--threads", "N", "threads per rank; 0: its share of the cores");
  arguments.flag(quick, "--quick", "measure only a few GEMM shapes (half a minute)");
  arguments.flag(rough, "--rough", "measure one shape and one small model (a few seconds)");
  arguments.flag(kernels, "--kernels", "measure each kernel alone instead, in GPT-2 1.5B's sizes");
  arguments.option(device, "--device", "D", "device for --kernels: auto, cpu or cuda");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  if (threads < 0) throw UsageError("bench --threads {}: expected 0 or more.", threads);
  const measure::Depth depth = depth_named(rough, quick);
  check_kernels(kernels, arguments.given("--device"), out);
  if (kernels) return bench_kernels(device, threads, depth != measure::Depth::kFull, json);
  if (!out.empty()) data::check_folder_of(out);
  const CpuFeatures cpu = read_cpu_features();
  const std::unique_ptr<comm::World> world =
      read_rank_info().ranks > 1 ? comm::mpi_world() : comm::self_world();
  MachineRates r;
  r.links = measure::measure_links(*world);
  if (threads == 0) threads = std::max<int64_t>(cpu.cores / r.links.ranks_per_host, 1);
  const auto team = static_cast<int>(threads);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    world->barrier();
    r.types.push_back(measure_type(type, cpu, team, depth));
  }
  world->barrier();
  r.memory = measure::measure_memory(cpu, team, kSeconds[static_cast<size_t>(depth)]);
  r.steps = measure::measure_steps(*world, cpu, team, depth);
  average(*world, r);
  if (world->rank() > 0) return 0;
  const Tree tree = to_tree(as_hardware(cpu, r));
  if (!out.empty()) {
    write_file(out,
               "# The rates of this machine, measured by tessera bench, for tessera plan RUN "
               "--cluster FILE.\n" +
                   to_yaml(tree));
  }
  if (json) {
    fmt::print("{}\n", to_json(tree));
    return 0;
  }
  fmt::print("{}, {} cores; {} rank{} × {} thread{} at the same time\n", cpu.model, cpu.cores,
             world->size(), world->size() > 1 ? "s" : "", team, team > 1 ? "s" : "");
  fmt::print("memory: read {:.1f} GB/s, copy {:.1f}, triad {:.1f}\n", r.memory.read / 1e9,
             r.memory.copy / 1e9, r.memory.triad / 1e9);
  print_links(r.links);
  for (const Measured& m : r.types) print_type(m);
  print_ops(r.steps);
  if (!cpu.bf16_products()) {
    fmt::print("\nThis CPU has no bf16 GEMMs: bf16 operands are converted to f32.\n");
  }
  if (!out.empty()) fmt::print("\nWritten to {}\n", out);
  return 0;
}

}  // namespace tessera::cli
