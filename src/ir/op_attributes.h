// The attributes of an op of any kind, and what several kinds have in common.
#pragma once

#include <type_traits>
#include <utility>

#include "ir/ops.h"

namespace tessera {

template <class A>
concept IsOp = (index_of<A>(OpTypes()) < kOpKinds);

// Copies, comparison and destruction are compiled only in op.cc: they were two thirds of the
// compile time of every source that uses Op.
class OpAttributes : public OpTypes::Variant {
 public:
  OpAttributes();
  template <IsOp A>
  OpAttributes(A op) : OpTypes::Variant(std::move(op)) {}
  OpAttributes(const OpAttributes&);
  OpAttributes(OpAttributes&&) noexcept;
  OpAttributes& operator=(const OpAttributes&);
  OpAttributes& operator=(OpAttributes&&) noexcept;
  ~OpAttributes();
  bool operator==(const OpAttributes&) const;
};

inline OpKind kind_of(const OpAttributes& attributes) {
  return static_cast<OpKind>(attributes.index());
}

// The attributes of an op of that kind, all at their defaults.
OpAttributes default_attributes(OpKind kind);

// The group of a conversion; nullptr for other ops.
const GroupRef* over_of(const OpAttributes& attributes);
GroupRef* over_of(OpAttributes& attributes);
// The buffer kind whose table maps elements of a flat buffer to weights (attribute `members`);
// kNone for ops that do not need it.
BufferKindId members_of(const OpAttributes& attributes);
// The type of the sum that an op adds to (attribute `accum_dtype`); nullptr where it adds to none.
DType* sum_type(OpAttributes& attributes);

}  // namespace tessera
