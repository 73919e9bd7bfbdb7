// Writes ops into a list and infers what they give. Model families use it for the forward,
// gradient rules for the backward.
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

  // A value nothing computes: a weight, an input.
  ValueId value(const std::string& name, DType dtype, Shape shape, Role role, uint8_t per);

  // Appends an op: emit(Gelu{.form = GeluForm::kTanh}, "up", {x}). Outputs not given (kNone, or
  // past the end of `outputs`) are made as the op's rule infers them, named
  // "<prefix>.<origin><suffix>", with the builder's index and role.
  std::vector<ValueId> emit(OpAttributes attributes, const std::string& origin,
                            std::vector<ValueId> inputs, std::vector<ValueId> outputs = {});
  ValueId emit_one(OpAttributes attributes, const std::string& origin,
                   std::vector<ValueId> inputs) {
    return emit(std::move(attributes), origin, std::move(inputs)).at(0);
  }

  // v at other places: appends the conversions that lead there, one for all axes that go the same
  // way.
  ValueId convert(ValueId v, const Sharding& to);

  Graph& graph() { return graph_; }
  const Value& operator[](ValueId v) const { return graph_[v]; }
  void role(Role r) { role_ = r; }
  // From here on outputs that emit makes are placed by the signature that the op's other operands
  // fit.
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

// What a gradient rule may ask and say. The gradient of a value is the sum of what its uses
// contribute, each at the dual of the value's places; values of aliasing ops may share one gradient
// value.
class Gradients {
 public:
  explicit Gradients(Builder& builder) : builder_(builder) {}

  Builder& builder() { return builder_; }
  const Value& operator[](ValueId v) const { return builder_[v]; }

  // The gradient of an output, complete; kNone if nothing depends on it.
  ValueId of(ValueId v) const;
  // Says that `gradient` is one term of v's gradient.
  void add(ValueId v, ValueId gradient);
  // The terms so far as one value that the caller adds its own term to (kNone: none yet); the
  // caller must add() the result.
  ValueId take(ValueId v);
  // Whether anything needs the gradient of v (not for token ids and the like).
  bool wanted(ValueId v) const;
  // The gradient of a weight, f32 here, which ops add to; of a frozen one, a value that nobody
  // reads.
  ValueId weight(ValueId w);
  // The report, which a loss adds to.
  ValueId report() const;

 private:
  Builder& builder_;
  std::vector<std::pair<ValueId, ValueId>> of_;
};

}  // namespace tessera
