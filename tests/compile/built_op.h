// An op of tests/compile/op_place_cases.h with its gradient, and numbers to try it on.
#pragma once

#include "base/philox.h"
#include "ir/builder.h"
#include "tests/compile/lockstep.h"
#include "tests/compile/op_place_cases.h"

namespace tessera::testing {

inline double drawn(uint64_t key, int64_t element) {
  return static_cast<double>(Philox{key}.word(static_cast<uint64_t>(element)) >> 11) * 0x1p-53 * 2 -
         1;
}

// The op with its gradient, on values without places.
struct Built {
  Graph graph;
  std::vector<Op> forward, backward;
  std::vector<ValueId> given;                         // with contents: inputs, gradients of outputs
  std::vector<std::pair<ValueId, ValueId>> gradient;  // operand → its gradient, given or made

  explicit Built(const Case& c) {
    Builder b(graph, forward, kOne, "");
    const ValueId report = b.value("report", DType::kF64, {kReportSize}, Role::kReport, kOne);
    for (const In& in : c.inputs)
      given.push_back(
          b.value("in" + std::to_string(given.size()), in.dtype, in.shape, in.role, kOne));
    Op op;
    op.attributes = c.attributes;
    const bool loss = rule_of(op).infer(op, inputs())[0].dtype == DType::kF64;
    b.emit(c.attributes, "op", given, {loss ? report : kNone});
    const Norm* const norm = op.if_as<Norm>();
    if (rule_of(op).gradient != nullptr && (norm == nullptr || !norm->sums())) differentiate();
  }
  const Op& op() const { return forward[0]; }

 private:
  Inputs inputs() const {
    Inputs in;
    for (const ValueId v : given) in.push_back(&graph[v]);
    return in;
  }
  void differentiate() {
    Builder b(graph, backward, kOne, "");
    Gradients g(b);
    const ValueId y = forward[0].outputs[0];
    const auto give = [&](ValueId of) {
      const ValueId d = b.value("d", graph[of].dtype, graph[of].shape, Role::kScratch, kOne);
      given.push_back(d);
      g.add(of, d);
      return d;
    };
    const Op op = forward[0];
    if (graph[y].role == Role::kActivation || op.is<SplitHeads>())
      gradient.emplace_back(y, give(y));
    if (op.is<SplitHeads>()) gradient.emplace_back(op.outputs[1], give(op.outputs[1]));
    if (op.is<AttentionScores>() || op.is<HeadSquares>())
      gradient.emplace_back(op.inputs[0], give(op.inputs[0]));
    rule_of(op).gradient(g, op);
    for (const ValueId v : op.inputs) {
      if (graph[v].role == Role::kWeight)
        gradient.emplace_back(v, g.weight(v));
      else if (g.of(v) != kNone)
        gradient.emplace_back(v, g.of(v));
    }
  }
};

// What a given value holds: ids in range, positive numbers where logarithms are taken.
inline Array contents(const Value& value, ValueId v) {
  Array a(static_cast<size_t>(value.shape.elements()));
  for (size_t i = 0; i < a.size(); ++i) {
    const auto e = static_cast<int64_t>(i);
    a[i] = drawn(static_cast<uint64_t>(v.number()), e);
    // Sums of exponentials are positive.
    if (is_batch(value.role)) a[i] = 2 + a[i];
    if (value.dtype == DType::kI32) a[i] = static_cast<double>((e * 5 + 1) % kRows);
    if (value.dtype == DType::kU8) a[i] = static_cast<double>(e % 3 != 0);
    if (value.dtype == DType::kI64) a[i] = static_cast<double>(e + 40);
    if (value.role == Role::kStep) a[i] = static_cast<double>(e + 1);
  }
  return a;
}

}  // namespace tessera::testing
