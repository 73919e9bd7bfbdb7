// The binding of rotary position embeddings.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::RotaryArgs args(const BoundOp& b) {
  const Rotary& a = b.op->as<Rotary>();
  kernels::Rotary how = {a.dims, a.base, a.inverse};
  if (a.scales()) how.scale = {a.factor, a.low, a.high, a.context};
  return {b.out(Rotary::kTurned), b.in(Rotary::kPositions), how};
}

void run(const BoundOp& b) {
  b.copy_unless_shared(b.in(Rotary::kQkv), b.out(Rotary::kTurned));
  b.run(args(b));
}

}  // namespace

template <>
const Binding& binding_for<Rotary>() {
  static constexpr Binding kBinding = {run, workspace_of<args>};
  return kBinding;
}

}  // namespace tessera::runtime
