// Runs a program on the CPU. The calling thread executes compute calls in issue order; all other
// calls are handed to TransferQueues and progress while it computes. Before a compute call it waits
// for the calls that it comes after, and polls the transfers after each op.
#include "runtime/host_executor.h"

#include "base/error.h"

namespace tessera::runtime {

HostExecutor::HostExecutor(BoundProgram& bound, const RunHooks& hooks, bool poison)
    : Executor(bound),
      hooks_(hooks),
      report_(*this, hooks),
      queues_(bound, hooks, report_, poison) {}

void HostExecutor::start() { CHECK(false, "a run on the host cannot start ahead"); }
void HostExecutor::finish() { CHECK(false, "a run on the host cannot start ahead"); }

int64_t HostExecutor::first_non_finite(const TensorView& device) const {
  int64_t first = -1;
  kernels::launch(kernels::Cpu(), {.threads = bound_.threads()},
                  kernels::FirstNonFiniteArgs{flat(device), &first});
  return first;
}

void HostExecutor::run(const Observer& observe) {
  queues_.begin_run(observe);
  // The run must end after an Error too: the progress thread must not continue an aborted run.
  struct End {
    TransferQueues& queues;
    ~End() { queues.end_run(); }
  } const end{queues_};
  const Program& p = program();
  for (const CallId c : p.schedule.ids())
    if (p.segment(p.call(c)).queue == Queue::kCompute)
      compute(c);
    else
      issue(c);
  for (const CallId c : p.schedule.ids()) queues_.wait_for(c);
}

void HostExecutor::wait_for_readers(CallId c) {
  if (hooks_.before_update && bound_.updates(c)) hooks_.before_update();
}

void HostExecutor::issue(CallId c) {
  wait_for_readers(c);
  queues_.issue(c);
}

void HostExecutor::compute(CallId c) {
  for (const CallId y : program().call(c).after) queues_.wait_for(y);
  wait_for_readers(c);
  queues_.begin_call(c);
  std::vector<PreparedOp>& ops = bound_.ops(c);
  const auto is_inner_op = [&](size_t i) { return is_inner(ops[i].op->queue); };
  for (size_t i = 0; i < ops.size(); ++i) {
    PreparedOp& op = ops[i];
    if (is_inner_op(i)) {
      queues_.issue(c, i);
      if (report_.observed()) queues_.wait_for(c, i);
      continue;
    }
    for (const int32_t j : op.op->after) queues_.wait_for(c, j);
    report_.started(c, op, op.bound.channel != nullptr);
    const double began = report_.now_s();
    if (op.bound.channel)
      queues_.exchange(c, op);
    else if (op.binding->run)
      op.binding->run(op.bound);
    report_.finished(c, op.bound, began);
    queues_.poll();
  }
  // An inner transfer may end after later ops, but not after the call, whose buffers it uses.
  for (size_t i = 0; i < ops.size(); ++i)
    if (is_inner_op(i)) queues_.wait_for(c, i);
  queues_.end_call(c);
}

}  // namespace tessera::runtime
