// The table of all rules, indexed by the kind of op, and helpers that several rules share.
#include "ir/ops/rules.h"

namespace tessera {
namespace {

template <class A>
constexpr const OpRule* rule_in_table() {
  if constexpr (requires { A::kOptimizer; })
    return &kOnePassUpdateRule;
  else
    return &A::rule;
}

template <class... Ts>
constexpr EnumArray<OpKind, const OpRule*> rules_of(TypeList<Ts...>) {
  return {rule_in_table<Ts>()...};
}
constexpr auto kRules = rules_of(OpTypes());

}  // namespace

const OpRule& rule_of(OpKind kind) { return *kRules.at(kind); }

Cost product_cost(const Op& op, ValueSpan values, Work work, std::vector<GemmShape> products) {
  Cost c = sweep_cost(op, values);
  c.work = work;
  double flops = 0;
  for (const GemmShape& p : products) flops += p.flops();
  c.flops = {flops, flops, flops};
  c.products = std::move(products);
  return c;
}

InPlace in_place_of(const Op& op) {
  const OpRule& rule = rule_of(op);
  return rule.in_place == nullptr ? InPlace{} : rule.in_place(op);
}

// Returns (input, output): the output may use the bytes of the input.
InPlace over_first(const Op&) { return {0, 0}; }
InPlace over_last(const Op& op) { return {static_cast<int>(op.inputs.size()) - 1, 0}; }
InPlace over_logits(const Op& op) { return op.outputs.size() > 1 ? InPlace{0, 1} : InPlace{}; }

bool changes_state(const Op& op, Role output) {
  return rule_of(op).effects.updates_weights || output == Role::kCache ||
         output == Role::kFactoredMoment;
}

}  // namespace tessera
