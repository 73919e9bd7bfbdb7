// The table of bindings, by the kind of op.
#include "runtime/binding.h"

#include <array>

namespace tessera {
namespace {

template <class... Ts>
const Binding& find(OpKind kind, TypeList<Ts...>) {
  static const std::array<const Binding*, sizeof...(Ts)> kAll = {&binding_for<Ts>()...};
  return *kAll[static_cast<size_t>(kind)];
}

}  // namespace

const Binding& binding_of(OpKind kind) { return find(kind, OpTypes()); }

}  // namespace tessera
