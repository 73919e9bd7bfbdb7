// Adafactor in three ops, between which the ranks add what they counted.
#include <cmath>

#include "ir/state.h"
#include "kernels/adafactor.h"
#include "kernels/fill.h"
#include "kernels/squares.h"
#include "runtime/bound_update.h"

namespace tessera {
namespace {

int64_t elements_of(const BoundOp& b, size_t member) {
  return b.values[static_cast<size_t>(b.members[member].weight)].shape.elements();
}

const FactorPlace& place_of(const BoundOp& b, const MemberRange& m) { return b.factors[m.index]; }

kernels::FactorShape shape_of(const FactorPlace& f) { return {f.rows, f.columns}; }

// Where the numbers of a weight's columns begin; a vector has none.
template <class T>
T* columns_of(T* frame, const FactorPlace& f) {
  return f.columns > 0 ? frame + f.columns_at : nullptr;
}

kernels::FactorStretch stretch_of(const BoundOp& b, const MemberStretch& s) {
  return {s.first, s.first + s.elements, s.global, place_of(b, b.members[s.member]).columns};
}

// Scales of all rows and columns, at the places of the means.
float* scales_of(const BoundOp& b, const TensorView& factors) {
  auto* scales = static_cast<float*>(b.workspace);
  const float* means = factors.f32();
  for (const FactorPlace& f : b.factors)
    kernels::factor_scales(shape_of(f), means + f.rows_at, columns_of(means, f), scales + f.rows_at,
                           columns_of(scales, f));
  return scales;
}

}  // namespace

int64_t adafactor_workspace_bytes(const Op& op, std::span<const Value> values) {
  const ValueId factors = op.kind == OpKind::kAdafactor ? op.inputs[4] : op.outputs[0];
  return values[static_cast<size_t>(factors)].shape.elements() * size_of(DType::kF32);
}

// Behind the sums of rows and columns stand those of the weights' squares, one a weight.
void run_adafactor_sums(const BoundOp& b) {
  const TensorView gradient = flat(b.in[0]), weights = flat(b.in[1]);
  const double scale = b.in[2].as<double>()[kScale];
  auto* sums = b.out[0].as<double>();
  double* squares = sums + b.op->attributes.integer("factors");
  kernels::clear(b.out[0]);
  if (b.in[2].as<double>()[kSkip] != 0) return;
  for (const MemberStretch& s : b.stretches) {
    const MemberRange& m = b.members[s.member];
    if (!m.counted_in_stage) continue;
    const FactorPlace& f = place_of(b, m);
    kernels::add_factor_sums(gradient, stretch_of(b, s), scale, b.op->attributes.number("epsilon"),
                             sums + f.rows_at, columns_of(sums, f));
    squares[m.index] +=
        kernels::sum_of_squares(part(weights, s.first, s.first + s.elements), b.workspace);
  }
}

void run_adafactor_squares(const BoundOp& b) {
  const auto *step = b.in[1].as<double>(), *report = b.in[2].as<double>();
  const auto* sums = b.in[3].as<double>();
  auto* squares = b.out[1].as<double>();
  kernels::clear(b.out[1]);
  if (report[kSkip] != 0) return;
  const double decay = 1 - std::pow(step[kStepNumber], -b.op->attributes.number("decay_power"));
  float* means = b.out[0].f32();
  for (const FactorPlace& f : b.factors)
    kernels::update_factors(shape_of(f), decay, sums + f.rows_at, columns_of(sums, f),
                            means + f.rows_at, columns_of(means, f));
  const float* scales = scales_of(b, b.out[0]);
  for (const MemberStretch& s : b.stretches) {
    const MemberRange& m = b.members[s.member];
    if (!m.counted_in_stage) continue;
    const FactorPlace& f = place_of(b, m);
    squares[m.index] += kernels::sum_of_update_squares(
        flat(b.in[0]), stretch_of(b, s), report[kScale], scales + f.rows_at, columns_of(scales, f));
  }
}

void run_adafactor(const BoundOp& b) {
  const Attributes& a = b.op->attributes;
  const kernels::UpdateStep step = update_step(b);
  if (step.skip) return;
  const double* weight_squares = b.in[3].as<double>() + b.in[4].elements();
  const double* update_squares = b.in[5].as<double>();
  const float* scales = scales_of(b, b.in[4]);
  const auto rms = [&](double squares, size_t member) {
    return std::sqrt(squares / static_cast<double>(elements_of(b, member)));
  };
  kernels::Update u = update_operands(b);
  std::vector<kernels::UpdateRange> ranges;
  for (size_t i = 0, s = 0; i < b.members.size(); ++i) {
    const MemberRange& m = b.members[i];
    const uint64_t key = rounding_key(b, m.weight, b.in[1].as<double>()[kSeed]);
    ranges.clear();
    for (; s < b.stretches.size() && b.stretches[s].member == i; ++s) {
      const MemberStretch& x = b.stretches[s];
      ranges.push_back({x.first, x.first + x.elements, decays(b, m), key, x.global});
    }
    u.ranges = ranges;
    kernels::UpdateStep own = step;
    if (const double least = a.number("least_scale"); least > 0)
      own.learning_rate *= std::max(least, rms(weight_squares[m.index], i));
    const double clip = std::max(1.0, rms(update_squares[m.index], i) / a.number("update_clip"));
    const FactorPlace& f = place_of(b, m);
    kernels::adafactor(u, own, {f.columns, scales + f.rows_at, columns_of(scales, f), 1 / clip});
  }
}

}  // namespace tessera
