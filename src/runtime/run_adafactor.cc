// Adafactor in three ops, between which the ranks add what they counted.
#include <map>

#include "ir/state.h"
#include "kernels/adafactor.h"
#include "runtime/bound_update.h"

namespace tessera {
namespace {

kernels::FactorShape shape_of(const FactorPlace& f) { return {f.rows, f.columns}; }

// Where the numbers of a weight's columns begin; a vector has none.
template <class T>
T* columns_of(T* frame, const FactorPlace& f) {
  return f.columns > 0 ? frame + f.columns_at : nullptr;
}

kernels::FactorStretch stretch_of(const BoundOp& b, const MemberStretch& s) {
  return {s.first, s.first + s.elements, s.element, b.factors[s.place].columns};
}

kernels::UpdateNumbers numbers_of(const TensorView& step, const TensorView& report) {
  const auto *s = step.as<double>(), *r = report.as<double>();
  return {s + kLearningRate, s + kUpdate, r + kScale, r + kSkip};
}

kernels::FactorScales scales_at(const float* scales, const FactorPlace& f) {
  return {f.columns, scales + f.rows_at, columns_of(scales, f)};
}

// Returns the name of the part of a packed weight that the range belongs to; empty for a weight
// without parts.
std::string part_name(const BoundOp& b, const MemberStretch& s) {
  const Value& w = b.values[b.members[s.member].weight];
  for (const WeightPart& part : w.parts) {
    const auto dim = static_cast<int>(part.dim);
    const int64_t at = s.global / w.shape.product(dim + 1, w.shape.rank()) % w.shape[dim];
    if (at >= part.first && at < part.first + part.count) return part.name;
  }
  return "";
}

// Scales of all rows and columns, at the places of the means, made in the workspace from `to` on.
const float* make_scales(const BoundOp& b, const TensorView& factors, void* to) {
  auto* scales = static_cast<float*>(to);
  const float* means = factors.f32();
  for (const FactorPlace& f : b.factors)
    b.kernels->factor_scales(b.stream, shape_of(f), means + f.rows_at, columns_of(means, f),
                             scales + f.rows_at, columns_of(scales, f));
  return scales;
}

}  // namespace

int64_t adafactor_workspace_bytes(const Op& op, ValueSpan values) {
  const ValueId factors = op.is<Adafactor>() ? op.inputs[4] : op.outputs[0];
  return values[factors].shape.elements() * size_of(DType::kF32);
}

// The sums of rows and columns are followed by those of the weights' squares, one per part.
void run_adafactor_sums(const BoundOp& b) {
  const TensorView gradient = flat(b.in[0]), weights = flat(b.in[1]);
  const double* report = b.in[2].as<double>();
  const kernels::UpdateNumbers n = {nullptr, nullptr, report + kScale, report + kSkip};
  auto* sums = b.out[0].as<double>();
  double* squares = sums + b.op->as<AdafactorSums>().of.factors;
  b.kernels->clear(b.stream, b.out[0]);
  for (const MemberStretch& s : b.stretches) {
    const MemberRange& m = b.members[s.member];
    if (!m.counted_in_stage) continue;
    const FactorPlace& f = b.factors[s.place];
    b.kernels->add_factor_sums(b.stream, gradient, stretch_of(b, s), n,
                               b.op->as<AdafactorSums>().of.epsilon, b.workspace, sums + f.rows_at,
                               columns_of(sums, f));
    b.kernels->squares(b.stream, part(weights, s.first, s.first + s.elements), b.workspace,
                       squares + s.place);
  }
}

void run_adafactor_squares(const BoundOp& b) {
  const kernels::UpdateNumbers n = numbers_of(b.in[1], b.in[2]);
  const auto* sums = b.in[3].as<double>();
  auto* squares = b.out[1].as<double>();
  b.kernels->clear(b.stream, b.out[1]);
  float* means = b.out[0].f32();
  for (const FactorPlace& f : b.factors)
    b.kernels->update_factors(b.stream, shape_of(f), n, b.op->as<AdafactorSquares>().of.decay_power,
                              sums + f.rows_at, columns_of(sums, f), means + f.rows_at,
                              columns_of(means, f));
  const int64_t partials = b.kernels->workspace.squares(b.in[0].elements());
  const float* scales = make_scales(b, b.out[0], static_cast<std::byte*>(b.workspace) + partials);
  for (const MemberStretch& s : b.stretches) {
    const MemberRange& m = b.members[s.member];
    if (!m.counted_in_stage) continue;
    b.kernels->add_update_squares(b.stream, flat(b.in[0]), stretch_of(b, s), n,
                                  scales_at(scales, b.factors[s.place]), b.workspace,
                                  squares + s.place);
  }
}

void run_adafactor(const BoundOp& b) {
  const Adafactor& a = b.op->as<Adafactor>();
  const double* weight_squares = b.in[3].as<double>() + b.in[4].elements();
  const double* update_squares = b.in[5].as<double>();
  const float* scales = make_scales(b, b.in[4], b.workspace);
  const double seed = (b.host_step ? b.host_step : b.in[1].as<double>())[kSeed];
  kernels::Update u = update_operands(b, a.update);
  std::map<size_t, std::vector<kernels::UpdateRange>> ranges;  // of each place
  for (const MemberStretch& s : b.stretches) {
    const MemberRange& m = b.members[s.member];
    std::vector<kernels::UpdateRange>& own = ranges[s.place];
    const uint64_t key =
        own.empty() ? rounding_key(b, m.weight, seed, part_name(b, s)) : own[0].key;
    own.push_back({s.first, s.first + s.elements, decays(b, a.update, m), key, s.element});
  }
  for (const auto& [place, own] : ranges) {
    const FactorPlace& f = b.factors[place];
    u.ranges = own;
    b.kernels->adafactor(b.stream, u, update_constants(a.update), numbers_of(b.in[1], b.in[2]),
                         scales_at(scales, f),
                         {weight_squares + place, update_squares + place,
                          static_cast<double>(f.elements()), a.least_scale, a.update_clip});
  }
}

}  // namespace tessera
