#include "bench/runtime/overlap_bench.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "bench/runtime/slow_link.h"
#include "compile/compile.h"
#include "ir/chunk.h"
#include "ir/rule.h"
#include "ir/state.h"
#include "plan/op_time.h"
#include "plan/simulate.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

// One program with memory of its own.
class Run {
 public:
  Run(const compile::CompileRequest& request, comm::World& world) : world_(world) {
    auto kernels = std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1);
    Program p = compile::compile(request, kernels->target());
    engine_ = std::make_unique<runtime::Engine>(
        std::vector<Program>{std::move(p)}, std::move(kernels),
        runtime::EngineOptions{.world = &world, .now_s = steady_s});
    engine_->initialize(7);
    const runtime::BoundProgram& bound = executor().bound();
    // Ranks that divide the experts have different sequences.
    const int64_t key = request.model.hidden + engine_->position().at[AxisKind::kExpert];
    for (const ValueId v : program().values.ids()) {
      if (program()[v].buffer == kNone) continue;
      if (program()[v].role == Role::kTokens || program()[v].role == Role::kLabels)
        fill(bound.view(v), key);
      if (program()[v].role == Role::kPositions) count(bound.view(v));
    }
  }

  runtime::Executor& executor() { return engine_->executor(0); }
  const Program& program() { return engine_->program(); }

  // Seconds of a step; its waits are in executor().communication().
  double step(const runtime::Observer& observe = {}) {
    auto* state = executor().bound().view(executor().bound().only(Role::kStep)).as<double>();
    state[kStepNumber] = state[kUpdate] = static_cast<double>(++steps_);
    state[kLearningRate] = 1e-5;  // so that routers do not become uneven
    state[kLossScale] = 1;
    world_.barrier();
    const double began = steady_s();
    executor().run(observe);
    return steady_s() - began;
  }
  double loss() {
    const auto* report =
        executor().bound().view(executor().bound().only(Role::kReport)).as<double>();
    return report[kLossSum] / report[kLossTokens];
  }
  bool same_weights(Run& other) {
    for (const StateShard& x : local_state(program(), engine_->position().at)) {
      const TensorView a = engine_->view(x), b = other.engine_->view(x);
      if (std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) != 0) return false;
    }
    return true;
  }

 private:
  static void fill(const TensorView& t, int64_t key) {
    for (int64_t i = 0; i < t.elements(); ++i)
      t.as<int32_t>()[i] =
          static_cast<int32_t>((static_cast<uint64_t>(i + key) * 2654435761u >> 7) % 512);
  }
  static void count(const TensorView& t) {
    for (int64_t i = 0; i < t.elements(); ++i)
      t.as<int32_t>()[i] = static_cast<int32_t>(i % t.shape[-1]);
  }

  comm::World& world_;
  std::unique_ptr<runtime::Engine> engine_;
  int64_t steps_ = 0;
};

// The rates of the ops of one observed step, as figures of this machine.
plan::Hardware hardware_of(Run& run, double link_bytes_per_s, double transfer_s) {
  plan::Hardware h;
  h.name = "this machine";
  plan::DeviceFigures& d = h.device;
  d.name = "core";
  d.kind = plan::DeviceKind::kCpu;
  d.memory_bytes = 1e10;
  d.memory_bytes_per_s = 1e10;
  d.memory_efficiency = d.matrix_efficiency = 1;
  d.bf16_flops_per_s = d.fp32_flops_per_s = 1e11;
  h.node = {
      .devices = 8, .bytes_per_s = link_bytes_per_s, .efficiency = 1, .latency_s = transfer_s};
  h.network = {link_bytes_per_s, 1, 0};
  struct Work {
    double work = 0, seconds = 0;
  };
  std::map<std::tuple<std::string, std::string, int64_t, int64_t, int64_t>, Work> products;
  std::map<std::string, Work> bytes, flops;
  const ValueVector local = local_values(run.program().values);
  const runtime::Observer note = [&](const runtime::OpEvent& e) {
    const Op& op = *e.op.op;
    if (communicates(op)) return;
    const double seconds = steady_s() - e.start_s;
    const Cost cost = cost_of(op, local);
    const auto add = [&](Work& w, double work) { w.work += work, w.seconds += seconds; };
    if (cost.work == tessera::Work::kProduct) {
      const GemmShape& s = cost.products.front();
      add(products[{std::string(name_of(s.type)), std::string(name_of(s.kind)), s.m, s.n, s.k}],
          s.flops());
    } else if (cost.work == tessera::Work::kAttention || cost.work == tessera::Work::kChunks) {
      add(flops[plan::rate_key(op, local)], cost.flops.hardware);
    } else {
      add(bytes[plan::rate_key(op, local)], cost.moved_bytes);
    }
  };
  for (int k = 0; k < 3; ++k) run.step(note);
  for (const auto& [key, w] : products) {
    const auto& [type, kind, m, n, k] = key;
    d.products.push_back({type, kind, m, n, k, w.work / w.seconds});
  }
  for (const auto& [key, w] : bytes) d.op_bytes_per_s[key] = w.work / w.seconds;
  for (const auto& [key, w] : flops) d.op_flops_per_s[key] = w.work / w.seconds;
  return h;
}

// Returns the program without the all-reduces between calls, for the simulation of a link that does
// not carry them.
Program without_all_reduces(Program p) {
  for (Segment& s : p.segments)
    if (std::all_of(s.ops.begin(), s.ops.end(), [](const Op& op) { return op.is<AllReduce>(); }))
      s.ops.clear();
  return p;
}

int64_t collectives_of(const Program& p) {
  int64_t count = 0;
  for (const Call& c : p.schedule) {
    const std::vector<Op>& ops = p.segment(c).ops;
    count += std::count_if(ops.begin(), ops.end(), communicates);
  }
  return count;
}

void report(const char* name, double step, double computation, double communication,
            double predicted) {
  fmt::print(
      "{:16} step {:.3f} s, exposed {:.3f} s, hidden {:.0f} %; predicted {:.3f} s ({:+.1f} %)\n",
      name, step, step - computation, 100 * (1 - (step - computation) / communication), predicted,
      100 * (predicted / step - 1));
}

// Returns the predicted time of a step of the program.
double predicted(Run& run, const OverlapBench& bench, double link_bytes_per_s, double transfer_s) {
  const plan::Hardware hardware = hardware_of(run, link_bytes_per_s, transfer_s);
  plan::Software software;
  software.expert_imbalance = 1;  // the rates are those of a rank with its own load
  const Program& p = run.program();
  return plan::simulate({bench.all_reduces ? p : without_all_reduces(p)}, hardware, software)
      .step_s;
}

int measure(const OverlapBench& bench) {
  const std::unique_ptr<comm::World> mpi = comm::mpi_world();
  if (mpi->size() != 2)
    throw Error("{}: {} ranks, expected 2. Run it with mpirun -n 2.", bench.name, mpi->size());
  SlowLink link;
  link.carries_all_reduces = bench.all_reduces;
  SlowWorld world(*mpi, link);
  Run off(bench.request(false), world), on(bench.request(true), world);
  const auto together = [&](double x) {
    mpi->all_reduce({&x, 1}, comm::Reduction::kMax);
    return x;
  };
  off.step(), on.step();
  const double before = link.sent;
  off.step();
  const double sent = link.sent - before;
  on.step();
  std::vector<double> computations;
  for (int k = 0; k < bench.rounds; ++k) {
    const double step = off.step();
    on.step();
    computations.push_back(together(step - off.executor().communication().exposed_s));
  }
  // A first rate gives the time of transfers in addition to their bytes, from which the second
  // follows.
  const double computation = median(computations), communication_s = bench.share * computation;
  link.bytes_per_s = sent / communication_s;
  std::vector<double> first;
  for (int k = 0; k < bench.rounds; ++k) {
    first.push_back(together(off.step()));
    on.step();
  }
  const double transfers_s =
      std::clamp(median(first) - computation - sent / link.bytes_per_s, 0.0, 0.8 * communication_s);
  link.bytes_per_s = sent / (communication_s - transfers_s);
  std::vector<double> without, with;
  for (int k = 0; k < bench.rounds; ++k) {
    without.push_back(together(off.step()));
    with.push_back(together(on.step()));
  }
  const double communication = median(without) - computation;
  const Program& carried = off.program();
  const double transfer_s =
      transfers_s / static_cast<double>(
                        collectives_of(bench.all_reduces ? carried : without_all_reduces(carried)));
  const double predicted_off = predicted(off, bench, link.bytes_per_s, transfer_s);
  const double predicted_on = predicted(on, bench, link.bytes_per_s, transfer_s);
  const bool same = off.same_weights(on);
  if (mpi->rank() == 0) {
    fmt::print("minimum time of a transfer {:.2f} ms\n", 1e3 * transfer_s);
    fmt::print("computation {:.3f} s, communication {:.3f} s ({:.1f} MB at {:.1f} MB/s)\n",
               computation, communication, sent / 1e6, link.bytes_per_s / 1e6);
    report("without overlap", median(without), computation, communication, predicted_off);
    report("with overlap", median(with), computation, communication, predicted_on);
    fmt::print("loss {:.6f} and {:.6f}; weights are {}\n", off.loss(), on.loss(),
               same ? "equal in every bit" : "different");
  }
  return same ? 0 : 1;
}

}  // namespace

int measure_overlap(const OverlapBench& bench) {
  try {
    return measure(bench);
  } catch (const Error& e) {
    std::cerr << e.what() << '\n';
    std::_Exit(1);
  }
}

}  // namespace tessera
