// Finds the optimizer of an update op, and the op of an optimizer, in the list of types.
#include "ir/one_pass_update.h"

#include "base/error.h"

namespace tessera {
namespace {

template <class... A>
OpAttributes update_in(TypeList<A...>, OptimizerKind kind, const WeightUpdate& update) {
  OpAttributes op;
  const bool found = ((A::kOptimizer == kind && (op = A{update}, true)) || ...);
  CHECK(found, "{} is not updated in one pass", traits_of(kind).name);
  return op;
}

}  // namespace

OnePass one_pass_of(const Op& op) {
  OnePass found;
  std::visit(
      [&]<class A>(const A& a) {
        if constexpr (requires { A::kOptimizer; }) found = {A::kOptimizer, &a.update};
      },
      op.attributes);
  CHECK(found.update != nullptr, "{} is not a one-pass update", name_of(op.kind()));
  return found;
}

OpAttributes one_pass_update(OptimizerKind kind, const WeightUpdate& update) {
  return update_in(OnePassUpdates(), kind, update);
}

}  // namespace tessera
