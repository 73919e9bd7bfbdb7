// Requests to stop. The first signal asks the run to finish its step, save and exit: SIGINT
// (Ctrl-C), SIGQUIT (Ctrl-\), SIGTERM, SIGHUP (closed terminal), those that batch systems send
// before a limit (SIGXCPU, SIGUSR1, SIGUSR2), and the other signals that end a process by default,
// including real-time signals. The second request ends the process at once with exit code 128 + the
// signal's number, as a shell would report it. Signals within one second count as one request,
// because `timeout`, `mpirun` and batch systems send one to the process and another to its group. A
// signal that is ignored at the start (`nohup`, a background job of a shell) stays ignored, and
// handlers that a profiler or a library installed for one of the less usual signals stay in place.
#pragma once

namespace tessera::train {

enum class SecondSignal { kEndsProcess, kIsCounted };

// Catches the signals while the object exists; the destructor restores the old handlers. A signal
// handler can access only global variables, so there is one count per process and at most one
// object at a time.
class StopSignals {
 public:
  explicit StopSignals(SecondSignal second = SecondSignal::kEndsProcess);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const { return requests() > 0; }
  int requests() const;
  int signal() const;  // the first signal; 0: none
};

}  // namespace tessera::train
