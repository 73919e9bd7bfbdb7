// Tables over the types of ops, generated from OpTypes: the index of a type in that list is its
// kind. Attributes that only some ops have are found at compile time by asking each type for the
// member.
#include "ir/op.h"

#include <algorithm>

namespace tessera {
namespace {

template <class... Ts>
constexpr std::array<std::string_view, kOpKinds> names(TypeList<Ts...>) {
  return {Ts::kName...};
}
constexpr auto kNames = names(OpTypes());

template <class A>
OpAttributes make() {
  return A();
}
template <class... Ts>
constexpr std::array<OpAttributes (*)(), kOpKinds> makers(TypeList<Ts...>) {
  return {make<Ts>...};
}
constexpr auto kMakers = makers(OpTypes());

}  // namespace

std::string_view name_of(OpKind kind) { return kNames.at(static_cast<size_t>(kind)); }

std::optional<OpKind> op_kind_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<OpKind>(found - kNames.begin());
}

OpAttributes default_attributes(OpKind kind) { return kMakers.at(static_cast<size_t>(kind))(); }

const GroupRef* over_of(const OpAttributes& attributes) {
  return std::visit(
      [](const auto& a) -> const GroupRef* {
        if constexpr (requires { a.over; })
          return &a.over;
        else
          return nullptr;
      },
      attributes);
}

GroupRef* over_of(OpAttributes& attributes) {
  return const_cast<GroupRef*>(over_of(std::as_const(attributes)));
}

// The only attribute of this type names the table of weights.
FrameKindId members_of(const OpAttributes& attributes) {
  FrameKindId members = kNone;
  std::visit(
      [&]<class A>(const A& a) {
        A::fields(a, [&]<class T>(const char*, const T& field, Print = {}, const Range& = {}) {
          if constexpr (std::is_same_v<T, FrameKindId>) members = field;
        });
      },
      attributes);
  return members;
}

DType* sum_type(OpAttributes& attributes) {
  return std::visit(
      [](auto& a) -> DType* {
        if constexpr (requires { a.into; })
          return &a.into;
        else
          return nullptr;
      },
      attributes);
}

}  // namespace tessera
