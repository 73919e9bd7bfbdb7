// tessera bench --kernels: how near each kernel comes to the limit of its device.
//
// A kernel that computes little is limited by memory: its share is its bytes per second divided by
// the rate of a plain copy, which is measured in the same process. Attention is limited by
// arithmetic and is compared with the fastest GEMM of its type (the roofline model,
// Williams et al. 2009, with measured roofs).
#include "cli/bench_table.h"

#include <chrono>

#include "base/tree.h"
#include "cli/device.h"
#include "measure/device_rates.h"
#include "measure/kernel_rates.h"
#include "train/run_device.h"

namespace tessera {
namespace {

constexpr double kWanted = 0.8;  // of the bandwidth
constexpr int64_t kCopied = 1ll << 30;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Limits {
  double copy = 0, bf16 = 0, f32 = 0;  // bytes and operations a second
};

Limits limits_of(const kernels::Backend& device, const CpuFeatures& cpu, double seconds) {
  return {device.has_streams() ? measure_copy(device, kCopied, now_s, seconds)
                               : measure_memory(cpu, device.threads(), seconds).copy,
          device.matrix_rate(DType::kBF16, now_s), device.matrix_rate(DType::kF32, now_s)};
}

double share_of(const KernelRate& r, const Limits& l) {
  if (r.flops == 0) return r.bytes / r.seconds / l.copy;
  return r.flops / r.seconds / (r.type == DType::kBF16 ? l.bf16 : l.f32);
}

Tree as_tree(const std::string& device, const Limits& l, const std::vector<KernelRate>& rates) {
  Tree root, list = Tree::list();
  root.set("device", Tree(device));
  root.set("copy_bytes_per_s", Tree(l.copy));
  root.set("bf16_flops_per_s", Tree(l.bf16));
  root.set("fp32_flops_per_s", Tree(l.f32));
  for (const KernelRate& r : rates) {
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

void print_table(const std::string& device, const Limits& l, const std::vector<KernelRate>& rates) {
  fmt::print("{}: a copy moves {:.1f} GB/s, products make {:.0f} GFLOP/s in bf16, {:.0f} in f32\n",
             device, l.copy / 1e9, l.bf16 / 1e9, l.f32 / 1e9);
  fmt::print("  {:26} {:>5} {:>10} {:>9} {:>9}\n", "kernel", "type", "us", "GB/s", "share");
  int64_t memory = 0, reached = 0;
  for (const KernelRate& r : rates) {
    const double share = share_of(r, l);
    const bool moves = r.flops == 0;
    memory += moves;
    reached += moves && share >= kWanted;
    fmt::print("{} {:26} {:>5} {:>10.1f} {:>9} {:>7.1f} % of {}\n",
               moves && share < kWanted ? '!' : ' ', r.name, name_of(r.type), 1e6 * r.seconds,
               moves ? fmt::format("{:.1f}", r.bytes / r.seconds / 1e9) : std::string("-"),
               100 * share, moves ? "the copy" : "the product");
  }
  fmt::print("{} of {} kernels reach {:.0f} % of the copy's bandwidth; '!' marks the others\n",
             reached, memory, 100 * kWanted);
}

}  // namespace

int print_kernels(const std::string& device, int threads, double seconds, bool json) {
  const CpuFeatures cpu = read_cpu_features();
  const std::optional<GpuFeatures> gpu = gpu_named(device, *self_world());
  const std::unique_ptr<kernels::Backend> backend = kernels::backend_of(cpu, threads, gpu);
  const Limits limits = limits_of(*backend, cpu, seconds);
  KernelSizes sizes;
  if (!gpu) sizes.sequences = 4;  // as much as a CPU does in a minute, and beyond its caches
  const std::vector<KernelRate> rates = measure_kernels(*backend, sizes, now_s, seconds);
  const std::string name = backend->model();
  if (json)
    fmt::print("{}\n", to_json(as_tree(name, limits, rates)));
  else
    print_table(name, limits, rates);
  return 0;
}

}  // namespace tessera
