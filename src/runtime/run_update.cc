// The optimizer's updates of a flat frame.
#include "base/error.h"
#include "base/philox.h"
#include "ir/state.h"
#include "runtime/bound_update.h"

namespace tessera {
namespace {

// Members whole, or where elements draw random numbers, the stretches they are of global weights.
std::vector<kernels::UpdateRange> ranges_of(const BoundOp& b, const WeightUpdate& a, double seed) {
  std::vector<kernels::UpdateRange> ranges;
  if (a.rounding != Rounding::kStochastic) {
    for (const MemberRange& m : b.members) ranges.push_back({m.first, m.last, decays(b, a, m)});
    return ranges;
  }
  std::vector<uint64_t> keys;
  for (const MemberRange& m : b.members) keys.push_back(rounding_key(b, m.weight, seed));
  for (const MemberStretch& s : b.stretches)
    ranges.push_back({s.first, s.first + s.elements, decays(b, a, b.members[s.member]),
                      keys[s.member], s.global});
  return ranges;
}

void update(const BoundOp& b, kernels::UpdateRule rule, const WeightUpdate& a) {
  const auto *step = b.in[1].as<double>(), *report = b.in[2].as<double>();
  kernels::Update u = update_operands(b, a);
  const double seed = (b.host_step ? b.host_step : step)[kSeed];
  const auto ranges = ranges_of(b, a, seed);
  u.ranges = ranges;
  b.kernels->update(b.stream, rule, u, update_constants(a),
                    {step + kLearningRate, step + kUpdate, report + kScale, report + kSkip});
}

}  // namespace

bool decays(const BoundOp& b, const WeightUpdate& a, const MemberRange& m) {
  return a.decay != 0 && (b.values[m.weight].decays || a.decay_vectors);
}

uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part) {
  const std::string name = known_name(b.values[weight], b.layer);
  const std::string suffix = part.empty() ? "|rounding" : "|rounding." + part;
  return hash_name(name + suffix, static_cast<uint64_t>(seed));
}

kernels::UpdateStep update_constants(const WeightUpdate& a) {
  kernels::UpdateStep s;
  s.beta1 = a.beta1;
  s.beta2 = a.beta2;
  s.epsilon = a.epsilon;
  s.weight_decay = a.decay;
  return s;
}

kernels::Update update_operands(const BoundOp& b, const WeightUpdate& a) {
  kernels::Update u;
  size_t next = 1;
  for (TensorView* moment : {&u.m, &u.v})
    if (next < b.op->outputs.size()) {
      const Role role = b.values[b.op->outputs[next]].role;
      if (role == (moment == &u.m ? Role::kMoment1 : Role::kMoment2)) *moment = flat(b.out[next++]);
    }
  u.weights = flat(a.master ? b.out[next] : b.out[0]);
  if (a.master) u.weights_low = flat(b.out[0]);
  u.gradient = flat(b.in[0]);
  u.stochastic = a.rounding == Rounding::kStochastic;
  return u;
}

void run_adamw(const BoundOp& b) {
  update(b, kernels::UpdateRule::kAdamW, b.op->as<Adamw>().update);
}
void run_lion(const BoundOp& b) { update(b, kernels::UpdateRule::kLion, b.op->as<Lion>().update); }
void run_sgd(const BoundOp& b) { update(b, kernels::UpdateRule::kSgd, b.op->as<Sgd>().update); }

}  // namespace tessera
