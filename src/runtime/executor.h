// Runs a program. Two implementations: HostExecutor computes on the CPU, StreamExecutor on a GPU.
#pragma once

#include "runtime/bound_program.h"
#include "runtime/events.h"

namespace tessera::runtime {

class Executor {
 public:
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const BoundProgram& bound() const { return bound_; }
  const Program& program() const { return bound_.program(); }

  // Executes the program once. `observe` is called after each op; so that it can read the op's
  // outputs, transfers then progress only between ops. Throws Error if another rank has failed.
  virtual void run(const Observer& observe = {}) = 0;

  // run() in two parts, for runs that are graph launches: a second run may start before the first
  // one is finished, so the device executes both without a pause. finish() waits for the oldest
  // run, and `report` belongs to that run until the next start() or finish(). If the update of a
  // run was skipped, a run that started before finish() skips its update too (kPreviousSkipped).
  virtual bool can_run_ahead() const = 0;
  virtual void start() = 0;
  virtual void finish() = 0;
  // Waits until the device has read the host's input of the last start().
  virtual void wait_until_read() const = 0;

  // For values that are not exchanged in each run: fetch() copies the device's bytes to the host
  // and returns the copy; send() copies them back. On a CPU there is no copy.
  virtual TensorView fetch(const TensorView& device) const = 0;
  virtual void send(const TensorView& host) const = 0;
  virtual int64_t first_non_finite(const TensorView& device) const = 0;  // see OpEvent

  // Returns the communication of the last finished run. If runs are graph launches, the seconds are
  // those of the last timed run (one in kRunsPerTiming).
  virtual const CommunicationTime& communication() const = 0;
  virtual Waiting waiting() const = 0;  // may be called from any thread

 protected:
  explicit Executor(BoundProgram& bound) : bound_(bound) {}
  BoundProgram& bound_;
};

}  // namespace tessera::runtime
