#include "runtime/host_executor.h"

#include "base/error.h"

namespace tessera {

HostExecutor::HostExecutor(BoundProgram& bound, const RunHooks& hooks, bool poison)
    : Executor(bound),
      hooks_(hooks),
      report_(*this, hooks),
      queues_(bound, hooks, report_, poison) {}

void HostExecutor::start() { CHECK(false, "a run on the host cannot start ahead"); }
void HostExecutor::finish() { CHECK(false, "a run on the host cannot start ahead"); }

int64_t HostExecutor::first_non_finite(const TensorView& device) const {
  int64_t first = -1;
  kernels::launch(kernels::Cpu(), {}, kernels::FirstNonFiniteArgs{flat(device), &first});
  return first;
}

void HostExecutor::run(const Observer& observe) {
  queues_.begin_run(observe);
  // Runs on an Error, too: the progress thread must not continue half a run.
  struct End {
    TransferQueues& queues;
    ~End() { queues.end_run(); }
  } const end{queues_};
  const Program& p = program();
  for (const CallId c : p.schedule.ids())
    if (p.segment(p.call(c)).queue == Queue::kCompute)
      compute(c);
    else
      queues_.issue(c);
  for (const CallId c : p.schedule.ids()) queues_.wait_for(c);
}

void HostExecutor::compute(CallId c) {
  for (const CallId y : program().call(c).after) queues_.wait_for(y);
  if (hooks_.before_update && bound_.updates(c)) hooks_.before_update();
  queues_.begin_call(c);
  for (PreparedOp& op : bound_.ops(c)) {
    report_.started(c, op, op.bound.channel != nullptr);
    const double began = report_.now_s();
    if (op.bound.channel)
      queues_.exchange(c, op);
    else if (op.binding->run)
      op.binding->run(op.bound);
    report_.finished(c, op.bound, began);
    queues_.poll();
  }
  queues_.end_call(c);
}

}  // namespace tessera
