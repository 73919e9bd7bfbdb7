// Runs a program on the CPU. Calls of the compute queue run in the caller's thread, in issue order,
// each after the calls in its `after` are complete. All other calls, and ops of inner queues, go to
// TransferQueues. A call is complete when its ops of all queues are. A run ends when all queues are
// empty, so the waits of `before_step` for calls of the previous step are always satisfied.
#pragma once

#include "runtime/transfer_queues.h"

namespace tessera::runtime {

class HostExecutor : public Executor {
 public:
  // `bound` and `hooks` must outlive this object. `poison`: see poison.h.
  HostExecutor(BoundProgram& bound, const RunHooks& hooks, bool poison = false);

  void run(const Observer& observe = {}) override;
  bool can_run_ahead() const override { return false; }
  void start() override;
  void finish() override;
  void wait_until_read() const override {}
  TensorView fetch(const TensorView& device) const override { return device; }
  void send(const TensorView&) const override {}
  int64_t first_non_finite(const TensorView& device) const override;
  const CommunicationTime& communication() const override { return queues_.communication(); }
  Waiting waiting() const override { return queues_.waiting(); }

 private:
  void compute(CallId c);
  void issue(CallId c);  // for calls of other queues
  // Waits for readers of the state if the call changes it.
  void wait_for_readers(CallId c);

  const RunHooks& hooks_;
  OpReporter report_;
  TransferQueues queues_;
};

}  // namespace tessera::runtime
