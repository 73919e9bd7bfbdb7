// Tables over the types of ops, generated from OpTypes: the index of a type in that list is its
// kind. Attributes that only some ops have are found at compile time by testing each type for the
// member.
#include "ir/op.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

template <class... Ts>
constexpr EnumArray<OpKind, std::string_view> names(TypeList<Ts...>) {
  return {Ts::kName...};
}
constexpr auto kNames = names(OpTypes());

template <class A>
OpAttributes make() {
  return A();
}
template <class... Ts>
constexpr EnumArray<OpKind, OpAttributes (*)()> makers(TypeList<Ts...>) {
  return {make<Ts>...};
}
constexpr auto kMakers = makers(OpTypes());

}  // namespace

std::string_view name_of(OpKind kind) { return kNames.at(kind); }

std::optional<OpKind> op_kind_named(std::string_view name) {
  return enumerator_named(kNames, name);
}

OpAttributes::OpAttributes() = default;
OpAttributes::OpAttributes(const OpAttributes&) = default;
OpAttributes::OpAttributes(OpAttributes&&) noexcept = default;
OpAttributes& OpAttributes::operator=(const OpAttributes&) = default;
OpAttributes& OpAttributes::operator=(OpAttributes&&) noexcept = default;
OpAttributes::~OpAttributes() = default;
bool OpAttributes::operator==(const OpAttributes& other) const {
  const OpTypes::Variant &a = *this, &b = other;
  return a == b;
}

OpAttributes default_attributes(OpKind kind) { return kMakers.at(kind)(); }

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

// Returns the only attribute of type BufferKindId, which names the table of weights; kNone if there
// is none.
BufferKindId members_of(const OpAttributes& attributes) {
  BufferKindId members = kNone;
  std::visit(
      [&]<class A>(const A& a) {
        A::fields(a, [&]<class T>(const char*, const T& field, Print = {}, const Range& = {}) {
          if constexpr (std::is_same_v<T, BufferKindId>) members = field;
        });
      },
      attributes);
  return members;
}

DType* sum_type(OpAttributes& attributes) {
  return std::visit(
      [](auto& a) -> DType* {
        if constexpr (requires { a.accum_dtype; })
          return &a.accum_dtype;
        else
          return nullptr;
      },
      attributes);
}

// ---- Finds the optimizer of an update op, and the update op of an optimizer, in the list of
// types.

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
