// Functions of run reports that need the definition of Executor.
#include "runtime/events.h"

#include "runtime/executor.h"

namespace tessera::runtime {

TensorView OpEvent::host(const TensorView& operand) const { return executor.fetch(operand); }
int64_t OpEvent::first_non_finite(const TensorView& operand) const {
  return executor.first_non_finite(operand);
}

void OpReporter::started(CallId c, const PreparedOp& op, bool waits) const {
  const Program& p = executor_.program();
  if (hooks_.started) hooks_.started({p.call(c), p.segment(p.call(c)), *op.op, waits});
}

void OpReporter::finished(CallId c, const BoundOp& op, double start_s) const {
  const Program& p = executor_.program();
  if (observed()) (*observe_)({p.call(c), p.segment(p.call(c)), op, start_s, executor_});
}

}  // namespace tessera::runtime
