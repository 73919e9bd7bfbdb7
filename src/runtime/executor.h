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

  // `observe` is called after each op. So that it can read the outputs of each op, transfers then
  // progress between ops only. Throws Error if a peer is lost.
  virtual void run(const Observer& observe = {}) = 0;

  // run() in two parts, where runs are launches of a graph: a second one may start before the first
  // is finished, and the device goes from one to the other without a pause. finish() waits for the
  // oldest; `report` is that one's until the next start() or finish(). If a run was skipped, so is
  // one that started before its finish (kSkipBefore).
  virtual bool can_run_ahead() const = 0;
  virtual void start() = 0;
  virtual void finish() = 0;
  // Waits until what the host wrote for the last start() has been read.
  virtual void wait_until_read() const = 0;

  // Values outside of what each run exchanges: fetch() copies the device's bytes to the host and
  // returns the copy; send() copies them back. On the host both are one.
  virtual TensorView fetch(const TensorView& device) const = 0;
  virtual void send(const TensorView& host) const = 0;
  virtual int64_t first_non_finite(const TensorView& device) const = 0;  // see OpEvent

  // The communication of the last finished run. If runs are launches of graphs, the seconds are
  // those of the last run that was timed (one in kRunsPerTiming).
  virtual const CommunicationTime& communication() const = 0;
  virtual Waiting waiting() const = 0;  // may be called from any thread

 protected:
  explicit Executor(BoundProgram& bound) : bound_(bound) {}
  BoundProgram& bound_;
};

}  // namespace tessera::runtime
