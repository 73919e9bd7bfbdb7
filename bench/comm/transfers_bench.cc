// Measures transfers between ranks on this machine, each as a ratio to Open MPI's own collective,
// and their cost to ranks that compute meanwhile, for several ways to advance the transfer:
//   mpirun -n 2 build/bench/comm/transfers_bench
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/backoff.h"
#include "comm/world.h"

namespace tessera::bench {
namespace {

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void finish(comm::Communicator& c, comm::Ticket t) {
  comm::Backoff backoff;
  while (!c.done(t)) c.progress() ? backoff.moved() : backoff.pause();
}

struct Way {
  std::string name;
  std::function<void()> run;
};

// Returns the minimum time of each, in seconds, on the slowest rank. The ways alternate, so that
// other load of the machine affects all of them.
std::vector<double> times(comm::World& world, const std::vector<Way>& ways, int runs) {
  std::vector<double> least(ways.size(), 1e9);
  for (int k = 0; k < runs; ++k)
    for (size_t w = 0; w < ways.size(); ++w) {
      world.barrier();
      const double start = seconds();
      ways[w].run();
      double taken = seconds() - start;
      world.all_reduce({&taken, 1}, comm::Reduction::kMax);
      least[w] = std::min(least[w], taken);
    }
  return least;
}

void report(comm::World& world, const std::vector<Way>& ways, int runs) {
  const std::vector<double> t = times(world, ways, runs);
  if (world.rank() != 0) return;
  for (size_t w = 0; w < ways.size(); ++w)
    fmt::print("  {:46} {:7.1f} ms\n", ways[w].name, 1e3 * t[w]);
}

void compare(comm::World& world, comm::Communicator& all) {
  if (world.rank() == 0)
    fmt::print("all_reduce, {} ranks   bytes       ours     Open MPI  ratio\n", world.size());
  for (const int64_t n : {1, 64, 2048, 16384, 262144, 4194304}) {
    std::vector<float> x(static_cast<size_t>(n), 1.0f);
    const TensorView view = {x.data(), DType::kF32, Shape{n}};
    const std::vector<double> t =
        times(world,
              {{"ours", [&] { finish(all, all.all_reduce(view, view, comm::Reduction::kSum)); }},
               {"Open MPI",
                [&] {
                  MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(n), MPI_FLOAT, MPI_MAX,
                                MPI_COMM_WORLD);
                }}},
              n > 100'000 ? 15 : 60);
    if (world.rank() == 0)
      fmt::print("{:33} {:9.3f} ms {:9.3f} ms  {:5.2f}\n", 4 * n, 1e3 * t[0], 1e3 * t[1],
                 t[0] / t[1]);
  }
}

// An op of some milliseconds that a processor's core has to itself.
float compute(int64_t rounds) {
  float a[64];
  std::iota(a, a + 64, 0.0f);
  for (int64_t r = 0; r < rounds; ++r)
    for (float& v : a) v = v * 0.999f + 0.001f;
  return std::accumulate(a, a + 64, 0.0f);
}

struct Overlap {
  comm::Communicator& all;
  TensorView x;
  int64_t rounds;  // rounds of an op
  int ops;
  volatile float sink = 0;

  void op() { sink = sink + compute(rounds); }
  void compute_all(const std::function<void()>& between = [] {}) {
    for (int k = 0; k < ops; ++k) {
      op();
      between();
    }
  }
  comm::Ticket start() { return all.all_reduce(x, x, comm::Reduction::kSum); }
  // Another thread moves the transfer on; this one makes no MPI call meanwhile.
  void with_thread(int sleep_us) {
    const comm::Ticket t = start();
    std::thread mover([&] {
      while (!all.done(t)) {
        all.progress();
        if (sleep_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
      }
    });
    compute_all();
    mover.join();
  }
};

void overlap(comm::World& world, comm::Communicator& all, int64_t mib, double op_s, int ops) {
  std::vector<float> x(static_cast<size_t>(mib << 18), 0.0f);
  Overlap o{all, {x.data(), DType::kF32, Shape{mib << 18}}, 100'000, ops};
  const double unit = times(world, {{"op", [&] { o.op(); }}}, 9)[0] / 1e5;
  o.rounds = static_cast<int64_t>(op_s / unit);
  if (world.rank() == 0)
    fmt::print("{} ops of {:.0f} ms and an all_reduce of {} MiB, {} ranks\n", ops, 1e3 * op_s, mib,
               world.size());
  std::vector<Way> ways = {{"ops alone", [&] { o.compute_all(); }},
                           {"all_reduce alone", [&] { finish(all, o.start()); }},
                           {"one after the other",
                            [&] {
                              o.compute_all();
                              finish(all, o.start());
                            }},
                           {"asked between ops",
                            [&] {
                              const comm::Ticket t = o.start();
                              o.compute_all([&] { all.progress(); });
                              finish(all, t);
                            }},
                           {"a thread that asks all the time", [&] { o.with_thread(0); }}};
  for (const int us : {50, 200, 500, 1000})
    ways.push_back({fmt::format("a thread that sleeps {} us between questions", us),
                    [&o, us] { o.with_thread(us); }});
  report(world, ways, 9);
}

// Measures the cost of waiting to a core that another rank computes on: rank 0 computes, the others
// wait.
void waiting(comm::World& world, comm::Communicator& all) {
  if (world.size() < 2) return;
  float one = 0;
  volatile float sink = 0;
  const TensorView x = {&one, DType::kF32, Shape{1}};
  const auto compute_first = [&] {
    if (world.rank() == 0) sink = sink + compute(500'000);
  };
  if (world.rank() == 0) fmt::print("rank 0 computes, {} others wait\n", world.size() - 1);
  const auto begin = [&] {
    compute_first();
    return all.all_reduce(x, x, comm::Reduction::kMax);
  };
  report(world,
         {{"no rank waits", compute_first},
          {"polling continuously",
           [&] {
             const comm::Ticket t = begin();
             while (!all.done(t)) all.progress();
           }},
          {"asking, yielding, sleeping", [&] { finish(all, begin()); }}},
         9);
}

}  // namespace
}  // namespace tessera::bench

int main() {
  const auto world = tessera::comm::mpi_world();
  std::vector<int64_t> ranks(static_cast<size_t>(world->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto all = world->group(ranks);
  tessera::bench::compare(*world, *all);
  tessera::bench::waiting(*world, *all);
  tessera::bench::overlap(*world, *all, 32, 2e-3, 60);
  tessera::bench::overlap(*world, *all, 32, 20e-3, 6);
}
