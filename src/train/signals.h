// Leaving in order: SIGINT (Ctrl-C) and SIGTERM ask the run to finish its step, save and go; the
// second signal ends the process at once, with 128 + its number as a shell would report it.
#pragma once

namespace tessera {

// While one of these lives, the two signals are caught; then the old handlers come back. The
// handler can reach only what is global, so there is one flag a process and at most one object at
// a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const;
  int signal() const;  // SIGINT, SIGTERM or 0
};

}  // namespace tessera
