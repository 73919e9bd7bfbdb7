// The table of bindings, indexed by the kind of op.
#include "runtime/binding.h"

#include <array>

namespace tessera {
namespace {

template <class A>
const Binding& binding_in_table() {
  if constexpr (requires { A::kOptimizer; })
    return one_pass_binding();
  else
    return binding_for<A>();
}

template <class... Ts>
const Binding& find(OpKind kind, TypeList<Ts...>) {
  static const std::array<const Binding*, sizeof...(Ts)> kAll = {&binding_in_table<Ts>()...};
  return *kAll[static_cast<size_t>(kind)];
}

}  // namespace

const Binding& binding_of(OpKind kind) { return find(kind, OpTypes()); }

}  // namespace tessera
