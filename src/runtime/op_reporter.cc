#include "runtime/op_reporter.h"

namespace tessera {

void OpReporter::started(CallId c, const PreparedOp& op, bool waits) const {
  const Program& p = executor_.program();
  if (hooks_.started) hooks_.started({p.call(c), p.segment(p.call(c)), *op.op, waits});
}

void OpReporter::finished(CallId c, const BoundOp& op, double start_s) const {
  const Program& p = executor_.program();
  if (observed()) (*observe_)({p.call(c), p.segment(p.call(c)), op, start_s, executor_});
}

}  // namespace tessera
