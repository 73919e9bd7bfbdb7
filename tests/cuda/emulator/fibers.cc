// Blocks of threads as fibers: each runs until it meets a barrier, then the next one does. Contexts
// start them; what follows are jumps, which need no call of the kernel.
#include <csetjmp>

#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "gpu_runtime.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace tessera::kernels::gpu {

constexpr size_t kSharedBytes = 227 << 10;  // of a Hopper card
alignas(16) uint4 launch_shared_memory[kSharedBytes / sizeof(uint4)];

}  // namespace tessera::kernels::gpu

namespace cuda_emulator {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr int kWarp = 32;

struct Barrier {
  int expected = 0, arrived = 0;
  int64_t generation = 0;
  void release() {
    arrived = 0;
    ++generation;
  }
};

struct Fiber {
  ucontext_t context{};
  std::jmp_buf place;
  std::unique_ptr<std::byte[]> stack;
  bool started = false, over = false;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Barrier> warps;
  std::vector<std::array<uint64_t, kWarp>> slots;
  Barrier all;
  int live = 0, current = 0;
  int64_t moves = 0;  // barriers passed and threads ended
  std::jmp_buf scheduler;
  const std::function<void()>* thread = nullptr;
};

Block block;  // one at a time, and one thread of the host

Barrier& own_warp() { return block.warps[static_cast<size_t>(block.current / kWarp)]; }

void yield() {
  if (_setjmp(block.fibers[static_cast<size_t>(block.current)].place) == 0)
    _longjmp(block.scheduler, 1);
}

// Runs the fiber until it yields or ends.
void enter(Fiber& f) {
  if (_setjmp(block.scheduler) != 0) return;
  if (f.started) _longjmp(f.place, 1);
  f.started = true;
  setcontext(&f.context);
}

void wait(Barrier& b) {
  const int64_t generation = b.generation;
  if (++b.arrived == b.expected) {
    ++block.moves;
    return b.release();
  }
  while (b.generation == generation) yield();
  ++block.moves;
}

void leave(Barrier& b) {
  --b.expected;
  if (b.expected > 0 && b.arrived == b.expected) b.release();
}

void run_fiber() {
  (*block.thread)();
  Fiber& own = block.fibers[static_cast<size_t>(block.current)];
  own.over = true;
  --block.live;
  ++block.moves;
  leave(block.all);
  leave(own_warp());
  _longjmp(block.scheduler, 1);
}

void start(int threads) {
  block.fibers.resize(std::max(block.fibers.size(), static_cast<size_t>(threads)));
  const auto warps = static_cast<size_t>((threads + kWarp - 1) / kWarp);
  block.warps.assign(warps, {});
  block.slots.resize(warps);
  for (size_t w = 0; w < warps; ++w)
    block.warps[w].expected = std::min(kWarp, threads - static_cast<int>(w) * kWarp);
  block.all = {threads, 0, 0};
  block.live = threads;
  for (int i = 0; i < threads; ++i) {
    Fiber& f = block.fibers[static_cast<size_t>(i)];
    if (!f.stack) f.stack = std::make_unique<std::byte[]>(kStackBytes);
    f.started = f.over = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStackBytes;
    makecontext(&f.context, run_fiber, 0);
  }
}

void run_block(int threads) {
  start(threads);
  while (block.live > 0) {
    const int64_t before = block.moves;
    for (int i = 0; i < threads; ++i) {
      if (block.fibers[static_cast<size_t>(i)].over) continue;
      block.current = i;
      threadIdx = dim3(static_cast<unsigned>(i), 0, 0);
      enter(block.fibers[static_cast<size_t>(i)]);
    }
    CHECK(block.moves > before, "threads of a block wait at different barriers");
  }
}

}  // namespace

void block_barrier() { wait(block.all); }
void warp_barrier() { wait(own_warp()); }
int own_lane() { return block.current % kWarp; }
void check_whole_warp() {
  CHECK(own_warp().expected == kWarp, "a shuffle of a warp with {} lanes", own_warp().expected);
}
uint64_t& slot(int lane) {
  CHECK(lane >= 0 && lane < kWarp, "a shuffle from lane {}", lane);
  return block.slots[static_cast<size_t>(block.current / kWarp)][static_cast<size_t>(lane)];
}

void run_blocks(dim3 grid, dim3 threads, size_t shared_bytes, const std::function<void()>& thread) {
  using tessera::kernels::gpu::kSharedBytes;
  CHECK(shared_bytes <= kSharedBytes, "a launch with {} bytes of shared memory", shared_bytes);
  gridDim = grid;
  blockDim = threads;
  block.thread = &thread;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        // What is read before it is written is a NaN, and what a launch did not ask for too.
        std::memset(tessera::kernels::gpu::launch_shared_memory, 0xff, shared_bytes);
        run_block(static_cast<int>(threads.x));
      }
}

}  // namespace cuda_emulator

uint32_t tessera::ballot(bool x) {
  using namespace cuda_emulator;
  check_whole_warp();
  slot(own_lane()) = x ? 1 : 0;
  warp_barrier();
  uint32_t bits = 0;
  for (int l = 0; l < kWarp; ++l)
    if (slot(l) == 1) bits |= 1u << l;
  warp_barrier();
  slot(own_lane()) = 0;
  return bits;
}
