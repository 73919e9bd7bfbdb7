// Appends ops to a list and infers their outputs. Model families use it for the forward, gradient
// rules for the backward.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/rule.h"

namespace tessera {

class Builder {
 public:
  Builder(Graph& graph, std::vector<Op>& ops, uint8_t per, std::string prefix)
      : graph_(graph), ops_(ops), per_(per), prefix_(std::move(prefix)) {}

  // Adds a value that no op computes: a weight or an input.
  ValueId value(const std::string& name, DType dtype, Shape shape, Role role, uint8_t per);

  // Appends an op: emit(Gelu{.form = GeluForm::kTanh}, "up", {x}). Outputs that are not given
  // (kNone, or past the end of `outputs`) are created as the op's rule infers them, named
  // "<prefix>.<origin><suffix>", with the builder's index and role.
  std::vector<ValueId> emit(OpAttributes attributes, const std::string& origin,
                            std::vector<ValueId> inputs, std::vector<ValueId> outputs = {});
  ValueId emit_one(OpAttributes attributes, const std::string& origin,
                   std::vector<ValueId> inputs) {
    return emit(std::move(attributes), origin, std::move(inputs)).at(0);
  }

  // Returns v with another sharding: appends the conversions that lead to it, one op for all axes
  // that need the same conversion.
  ValueId convert(ValueId v, const Sharding& to);

  Graph& graph() { return graph_; }
  const Value& operator[](ValueId v) const { return graph_[v]; }
  void role(Role r) { role_ = r; }
  void prefix(std::string p) { prefix_ = std::move(p); }
  // From here on, emit gives its outputs the placements of the signature that fits the op's other
  // operands.
  void place_outputs() { places_ = true; }

 private:
  void place(const Op& op, const std::vector<ValueId>& given);

  Graph& graph_;
  std::vector<Op>& ops_;
  uint8_t per_;
  std::string prefix_;
  Role role_ = Role::kActivation;
  bool places_ = false;
};

// The interface of gradient rules. The gradient of a value is the sum of the contributions of its
// uses, each with the dual of the value's sharding; values of aliasing ops may share one gradient
// value.
class Gradients {
 public:
  explicit Gradients(Builder& builder) : builder_(builder) {}

  Builder& builder() { return builder_; }
  const Value& operator[](ValueId v) const { return builder_[v]; }

  // Returns the complete gradient of an output; kNone if nothing depends on it.
  ValueId of(ValueId v) const;
  // Adds `gradient` as one term of v's gradient.
  void add(ValueId v, ValueId gradient);
  // Returns the terms so far as one value, to which the caller adds its own term (kNone: none yet);
  // the caller must add() the result.
  ValueId take(ValueId v);
  // Returns true if anything needs the gradient of v (false for token ids, for example).
  bool wanted(ValueId v) const;
  // Returns the gradient of a weight, in f32 here, to which ops add; for a frozen weight, a value
  // that is never read.
  ValueId weight(ValueId w);
  // Returns the report, to which a loss adds.
  ValueId report() const;

 private:
  Builder& builder_;
  std::vector<std::pair<ValueId, ValueId>> of_;
};

}  // namespace tessera
