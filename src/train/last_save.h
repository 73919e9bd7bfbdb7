// The last save of a run. Without it, completed steps are lost.
#pragma once

#include <functional>

#include "comm/world.h"
#include "train/saves.h"
#include "train/signals.h"

namespace tessera {

// Collective. Calls `start`, which begins the save of that step, until it has succeeded: at once
// after the reserve was released, else each second for `retry_s`, or until a further signal comes
// or the failure is permanent. Throws SharedError with the reason if it never succeeds.
void save_last_step(Saves& saves, int64_t step, const std::function<void()>& start, World& world,
                    const StopSignals& signals, double retry_s,
                    const std::function<double()>& now_s);

}  // namespace tessera
