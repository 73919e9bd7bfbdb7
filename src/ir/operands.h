// Finds the operands of an op by the slots that its type names (ir/ops/fields.h).
#pragma once

#include <concepts>

#include "ir/op.h"

namespace tessera {

// Returns the index of a slot among the inputs of an op with these attributes, the first if it has
// several; kNone if the attributes omit it.
template <class A>
int input_index(const A& attributes, typename A::In wanted) {
  if constexpr (requires { A::inputs(attributes, [](auto, int64_t) {}); }) {
    int64_t next = 0, found = kNone;
    A::inputs(attributes, [&](typename A::In slot, int64_t count) {
      if (slot == wanted && count != 0) found = next;
      next += count == kRest ? 0 : count;
    });
    return static_cast<int>(found);
  } else {
    return static_cast<int>(wanted);
  }
}

// The same for outputs.
template <class A>
int output_index(const A& attributes, typename A::Out wanted) {
  if constexpr (requires { A::outputs(attributes, [](auto, int64_t) {}); }) {
    int64_t next = 0, found = kNone;
    A::outputs(attributes, [&](typename A::Out slot, int64_t count) {
      if (slot == wanted && count != 0) found = next;
      next += count;
    });
    return static_cast<int>(found);
  } else {
    return static_cast<int>(wanted);
  }
}

// Returns the number of inputs of an op with these attributes, without those of kRest.
template <class A>
size_t input_count(const A& attributes) {
  size_t all = 0;
  A::inputs(attributes, [&](typename A::In, int64_t count) { all += count == kRest ? 0 : count; });
  return all;
}

// Returns the index in OpTypes of the op that has the slots Slot.
template <class Slot, class... Ts>
constexpr int owner_of(TypeList<Ts...>) {
  const auto owns = []<class A>(std::type_identity<A>) {
    bool found = false;
    if constexpr (requires { typename A::In; }) found |= std::is_same_v<typename A::In, Slot>;
    if constexpr (requires { typename A::Out; }) found |= std::is_same_v<typename A::Out, Slot>;
    return found;
  };
  int index = 0;
  const bool owned = ((owns(std::type_identity<Ts>()) || (++index, false)) || ...);
  return owned ? index : kOpKinds;
}
template <class Slot>
concept OperandSlot = std::is_enum_v<Slot> && owner_of<Slot>(OpTypes())
< kOpKinds;
template <OperandSlot Slot>
using OwnerOf = std::variant_alternative_t<size_t{owner_of<Slot>(OpTypes())}, OpTypes::Variant>;
template <class Slot>
concept InputSlot = OperandSlot<Slot> && requires {
  requires std::is_same_v<typename OwnerOf<Slot>::In, Slot>;
};
template <class Slot>
concept OutputSlot = OperandSlot<Slot> && !InputSlot<Slot>;

// Returns the index of a slot among the inputs (or outputs) of an op; kNone if it has none. The op
// must be of the type that names the slot: place_of(op, Attention::kBias) is for attention.
template <InputSlot Slot>
int place_of(const Op& op, Slot slot) {
  return input_index(op.as<OwnerOf<Slot>>(), slot);
}
template <OutputSlot Slot>
int place_of(const Op& op, Slot slot) {
  return output_index(op.as<OwnerOf<Slot>>(), slot);
}

// Returns the value of a slot, the first if it has several; kNone if it has none.
template <InputSlot Slot>
ValueId input(const Op& op, Slot slot) {
  const int place = place_of(op, slot);
  return place < 0 ? ValueId() : op.inputs.at(place);
}
template <OutputSlot Slot>
ValueId output(const Op& op, Slot slot) {
  const int place = place_of(op, slot);
  return place < 0 ? ValueId() : op.outputs.at(place);
}

}  // namespace tessera
