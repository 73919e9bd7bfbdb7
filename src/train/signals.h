// Requests to stop: SIGINT (Ctrl-C), SIGQUIT (Ctrl-\), SIGTERM, SIGHUP (the terminal was closed),
// what batch systems send before a limit (SIGXCPU, SIGUSR1, SIGUSR2) and the other signals whose
// default is to end the process, real-time signals too, ask the run to finish its step, save and
// exit; the second request ends the process at once, with 128 + the signal's number as a shell
// would report it. Signals within a second count as one request: `timeout`, `mpirun` and a
// batch system send one to the process and another to its group. A signal that is ignored at the
// start (`nohup`, a shell's background job) stays ignored, and a handler of a profiler or a library
// for one of the less usual signals stays in place.
#pragma once

namespace tessera::train {

enum class SecondRequest { kEndsProcess, kIsCounted };

// While one of these exists, the signals are caught; then the old handlers are restored. The
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
  int signal() const;  // the first one; 0: none
};

}  // namespace tessera::train
