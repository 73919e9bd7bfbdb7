// Leaving in order: SIGINT (Ctrl-C) and SIGTERM ask the run to finish its step, save and go; the
// second request ends the process at once, with 128 + the signal's number as a shell would report
// it. Signals less than a second apart are one request: `timeout`, `mpirun` and a batch system send
// one to the process and another to its group.
#pragma once

namespace tessera {

enum class SecondRequest { kEndsProcess, kIsCounted };

// While one of these lives, the two signals are caught; then the old handlers come back. The
// handler can reach only what is global, so there is one count a process and at most one object at
// a time.
class StopSignals {
 public:
  explicit StopSignals(SecondRequest second = SecondRequest::kEndsProcess);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const { return requests() > 0; }
  int requests() const;
  int signal() const;  // the first: SIGINT, SIGTERM or 0
};

}  // namespace tessera
