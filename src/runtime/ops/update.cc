// Bindings of optimizers whose update is one pass over a flat buffer.
#include "runtime/ops/update.h"

#include "base/philox.h"
#include "ir/op.h"
#include "ir/state.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// Returns one range per member, or one per contiguous run of a global weight if rounding is
// stochastic.
std::vector<kernels::UpdateRange> ranges_of(const BoundOp& b, const WeightUpdate& a, double seed) {
  std::vector<kernels::UpdateRange> ranges;
  if (a.rounding != Rounding::kStochastic) {
    for (const MemberRange& m : b.members->ranges)
      ranges.push_back({m.first, m.last, decays(b, a, m)});
    return ranges;
  }
  std::vector<uint64_t> keys;
  for (const MemberRange& m : b.members->ranges) keys.push_back(rounding_key(b, m.weight, seed));
  for (const MemberRun& s : b.members->runs)
    ranges.push_back({s.first, s.first + s.elements, decays(b, a, b.members->ranges[s.member]),
                      keys[s.member], s.global});
  return ranges;
}

// Returns the part of a packed weight that the range belongs to; nullptr for a weight without
// parts.
const WeightPart* part_at(const BoundOp& b, const MemberRun& s) {
  const Value& w = b.values[b.members->ranges[s.member].weight];
  for (const WeightPart& part : w.parts) {
    const auto dim = static_cast<int>(part.dim);
    const int64_t at = s.global / w.shape.product(dim + 1, w.shape.rank()) % w.shape[dim];
    if (at >= part.first && at < part.first + part.count) return &part;
  }
  return nullptr;
}

void run(const BoundOp& b) {
  const auto [kind, a] = one_pass_of(*b.op);
  // All one-pass updates have the operands of AdamW.
  const auto operand = [&](Adamw::In slot) { return b.inputs[slot]; };
  const TensorView step = operand(Adamw::kStep);
  const auto ranges = ranges_of(b, *a, update_seed(b, step));
  kernels::UpdateArgs args = {kind, update_operands(b, *a), update_constants(*a),
                              update_numbers(step, operand(Adamw::kReport))};
  args.update.ranges = ranges;
  b.run(args);
}

}  // namespace

bool decays(const BoundOp& b, const WeightUpdate& a, const MemberRange& m) {
  return a.decay != 0 && (b.values[m.weight].decays || a.decay_vectors);
}

uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part) {
  const std::string name = checkpoint_name(b.values[weight], b.layer);
  // One key per weight, part and seed, so two weights never share random bits.
  const std::string suffix = part.empty() ? "|rounding" : "|rounding." + part;
  return hash_name(name + suffix, static_cast<uint64_t>(seed));
}

std::map<size_t, PartRanges> part_ranges(const BoundOp& b, const WeightUpdate& a, double seed) {
  std::map<size_t, PartRanges> parts;
  for (const MemberRun& s : b.members->runs) {
    const MemberRange& m = b.members->ranges[s.member];
    PartRanges& own = parts[s.place];
    own.weight = m.weight;
    own.part = part_at(b, s);
    const uint64_t key = own.ranges.empty()
                             ? rounding_key(b, m.weight, seed, own.part ? own.part->name : "")
                             : own.ranges[0].key;
    own.ranges.push_back({s.first, s.first + s.elements, decays(b, a, m), key, s.element});
  }
  return parts;
}

double update_seed(const BoundOp& b, const TensorView& step) {
  return (b.host_step ? b.host_step : step.as<double>())[kSeed];
}

kernels::UpdateConstants update_constants(const WeightUpdate& a) {
  return {a.beta1, a.beta2, a.epsilon, a.decay, a.rate};
}

kernels::UpdateNumbers update_numbers(const TensorView& step, const TensorView& report) {
  return {number_at(step, kLearningRate), number_at(step, kUpdate), number_at(report, kScale),
          number_at(report, kSkip), number_at(step, kAverageShare)};
}

kernels::Update update_operands(const BoundOp& b, const WeightUpdate& a) {
  kernels::Update u;
  // Outputs are weights, then the iterate or the moments that the optimizer has with their scales,
  // then the master weights.
  for (size_t i = 1; i < b.op->outputs.size(); ++i) {
    const Role role = b.values[b.op->outputs[i]].role;
    const TensorView x = flat(b.outputs[i]);
    if (role == Role::kMoment1 || role == Role::kIterate) u.m = x;
    if (role == Role::kMoment2) u.v = x;
    if (role == Role::kMoment1Scale) u.m_scales = x;
    if (role == Role::kMoment2Scale) u.v_scales = x;
  }
  u.weights = flat(a.master ? b.outputs.back() : b.outputs[0]);
  if (a.master) u.weights_low = flat(b.outputs[0]);
  u.gradient = flat(b.inputs[0]);
  u.stochastic = a.rounding == Rounding::kStochastic;
  return u;
}

namespace {

kernels::WeightAverageArgs average_args(const BoundOp& b) {
  return {static_cast<float>(1 - b.op->as<WeightAverage>().decay),
          flat(b.in(WeightAverage::kWeights)), number_at(b.in(WeightAverage::kReport), kSkip),
          flat(b.out(WeightAverage::kAverage))};
}

}  // namespace

template <>
const Binding& binding_for<WeightAverage>() {
  static constexpr Binding kBinding = kernel<average_args>();
  return kBinding;
}

const Binding& one_pass_binding() {
  static constexpr Binding kBinding = {run};
  return kBinding;
}

}  // namespace tessera::runtime
