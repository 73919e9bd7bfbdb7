// The optimizer's updates of a flat frame.
#include "base/error.h"
#include "base/philox.h"
#include "ir/state.h"
#include "runtime/bound_update.h"

namespace tessera {
namespace {

// Members whole, or where elements draw random numbers, the stretches they are of global weights.
std::vector<kernels::UpdateRange> ranges_of(const BoundOp& b, bool stochastic, double seed) {
  std::vector<kernels::UpdateRange> ranges;
  if (!stochastic) {
    for (const MemberRange& m : b.members) ranges.push_back({m.first, m.last, decays(b, m)});
    return ranges;
  }
  std::vector<uint64_t> keys;
  for (const MemberRange& m : b.members) keys.push_back(rounding_key(b, m.weight, seed));
  for (const MemberStretch& s : b.stretches)
    ranges.push_back(
        {s.first, s.first + s.elements, decays(b, b.members[s.member]), keys[s.member], s.global});
  return ranges;
}

kernels::UpdateRule rule_of_update(OpKind k) {
  if (k == OpKind::kAdamw) return kernels::UpdateRule::kAdamW;
  CHECK(k == OpKind::kLion || k == OpKind::kSgd, "op kind {} is no update", static_cast<int>(k));
  return k == OpKind::kLion ? kernels::UpdateRule::kLion : kernels::UpdateRule::kSgd;
}

}  // namespace

bool decays(const BoundOp& b, const MemberRange& m) {
  const Attributes& a = b.op->attributes;
  const bool matrix = b.values[m.weight].decays;
  return a.number("decay") != 0 && (matrix || a.integer("decay_vectors") != 0);
}

uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part) {
  const std::string name = known_name(b.values[weight], b.layer);
  const std::string suffix = part.empty() ? "|rounding" : "|rounding." + part;
  return hash_name(name + suffix, static_cast<uint64_t>(seed));
}

bool rounds_stochastically(const Attributes& a) {
  return a.has("rounding") && a.text("rounding") == "stochastic";
}

kernels::UpdateStep update_constants(const BoundOp& b) {
  const Attributes& a = b.op->attributes;
  kernels::UpdateStep s;
  s.beta1 = a.number("beta1");
  s.beta2 = a.number("beta2");
  s.epsilon = a.number("epsilon");
  s.weight_decay = a.number("decay");
  return s;
}

kernels::Update update_operands(const BoundOp& b) {
  kernels::Update u;
  size_t next = 1;
  for (TensorView* moment : {&u.m, &u.v})
    if (next < b.op->outputs.size()) {
      const Role role = b.values[b.op->outputs[next]].role;
      if (role == (moment == &u.m ? Role::kMoment1 : Role::kMoment2)) *moment = flat(b.out[next++]);
    }
  const bool master = b.op->attributes.integer("master") != 0;
  u.weights = flat(master ? b.out[next] : b.out[0]);
  if (master) u.weights_low = flat(b.out[0]);
  u.gradient = flat(b.in[0]);
  u.stochastic = rounds_stochastically(b.op->attributes);
  return u;
}

void run_update(const BoundOp& b) {
  const auto *step = b.in[1].as<double>(), *report = b.in[2].as<double>();
  kernels::Update u = update_operands(b);
  const double seed = (b.host_step ? b.host_step : step)[kSeed];
  const auto ranges = ranges_of(b, u.stochastic, seed);
  u.ranges = ranges;
  b.kernels->update(b.stream, rule_of_update(b.op->kind), u, update_constants(b),
                    {step + kLearningRate, step + kUpdate, report + kScale, report + kSkip});
}

}  // namespace tessera
