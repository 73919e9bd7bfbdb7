// The binding of rotary position embeddings.
#include "base/error.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::RotaryScaling kind_of(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kUnscaled:
      return kernels::RotaryScaling::kUnscaled;
    case RopeScaling::kLinear:
      return kernels::RotaryScaling::kLinear;
    case RopeScaling::kLlama3:
      return kernels::RotaryScaling::kLlama3;
    case RopeScaling::kYarn:
      return kernels::RotaryScaling::kYarn;
    case RopeScaling::kLongrope:
      return kernels::RotaryScaling::kLongrope;
  }
  CHECK(false, "rotary scaling {}", static_cast<int>(scaling));
}

kernels::RotaryArgs args(const BoundOp& b) {
  const Rotary& a = b.op->as<Rotary>();
  kernels::Rotary how = {a.dims, a.base, a.inverse};
  how.scale = {kind_of(a.scaling), a.factor, a.low, a.high, a.context, a.truncate, a.dividers};
  how.magnitude = static_cast<float>(a.magnitude);
  return {b.out(Rotary::kRotated), b.in(Rotary::kPositions), how};
}

void run(const BoundOp& b) {
  b.copy_unless_shared(b.in(Rotary::kQkv), b.out(Rotary::kRotated));
  b.run(args(b));
}

}  // namespace

template <>
const Binding& binding_for<Rotary>() {
  static constexpr Binding kBinding = {run, workspace_of<args>};
  return kBinding;
}

}  // namespace tessera::runtime
