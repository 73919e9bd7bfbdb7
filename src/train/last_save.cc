// Repeats the last save of a run until it succeeds. All ranks decide together, by an all-reduce
// after each attempt, because a save is collective.
#include "train/last_save.h"

#include <array>
#include <chrono>
#include <thread>

#include "comm/agree.h"

namespace tessera {

void save_last_step(Saves& saves, int64_t step, const std::function<void()>& start, World& world,
                    const StopSignals& signals, double retry_s,
                    const std::function<double()>& now_s) {
  const double until_s = now_s() + retry_s;
  const int requests = signals.requests();
  const auto ends = [&] {
    return now_s() >= until_s || signals.requests() > requests || saves.failure_is_lasting();
  };
  for (;;) {
    start();
    saves.finish();
    if (saves.last() == step) return;
    std::array<double, 2> any = {ends() ? 1.0 : 0, saves.retry_due() ? 1.0 : 0};
    world.all_reduce(any, Reduction::kMax);
    // The reserve was released: the next attempt has more space and need not wait.
    if (any[1] > 0) continue;
    if (any[0] > 0) throw SharedError(saves.failure());
    // Sleeps in short pieces, so that a signal ends the wait.
    constexpr int kPieces = 10;
    for (int i = 0; i < kPieces && !ends(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kPieces));
  }
}

}  // namespace tessera
