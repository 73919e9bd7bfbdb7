// The clocks of the program, in seconds. Modules that tests run with a clock of their own get it as
// a std::function instead.
#pragma once

#include <chrono>

namespace tessera {

// Returns the time since an arbitrary moment. It never goes back, so differences are durations.
inline double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the time since 1970. It may jump when the clock of the machine is set.
inline double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
