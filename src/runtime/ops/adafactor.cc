// Bindings of Adafactor's three ops. The ranks add their sums between them:
//
//   adafactor_sums      row and column sums of g^2, sum of w^2      → all-reduce
//   adafactor_squares   means from the sums, scales, sum of u^2     → all-reduce
//   adafactor           the same scales, then the update
//
// The scales are computed twice instead of stored, since they need as much memory as the means.
#include <algorithm>

#include "ir/state.h"
#include "runtime/binding.h"
#include "runtime/ops/update.h"

namespace tessera::runtime {
namespace {

kernels::FactorShape shape_of(const FactoredMomentRange& f) { return {f.rows, f.columns}; }

// Returns the first column entry of a weight, or nullptr for a vector, which has no columns.
template <class T>
T* columns_of(T* buffer, const FactoredMomentRange& f) {
  return f.columns > 0 ? buffer + f.columns_at : nullptr;
}

kernels::FactorRun run_of(const BoundOp& b, const MemberRun& s) {
  return {s.first, s.first + s.elements, s.element, b.members->factors[s.place].columns};
}

kernels::FactorScales scales_at(const float* scales, const FactoredMomentRange& f) {
  return {f.columns, scales + f.rows_at, columns_of(scales, f)};
}

// Writes `scales` for all rows and columns, in the same memory layout as the means, and returns it.
const float* make_scales(const BoundOp& b, const TensorView& factors, float* scales) {
  const float* means = factors.f32();
  for (const FactoredMomentRange& f : b.members->factors)
    b.run(kernels::FactorScalesArgs{shape_of(f), means + f.rows_at, columns_of(means, f),
                                    scales + f.rows_at, columns_of(scales, f)});
  return scales;
}

// Calls f for the ranges that this rank counts. If several ranks hold the same elements, one of
// them counts them.
template <class F>
void each_counted(const BoundOp& b, const F& f) {
  for (const MemberRun& s : b.members->runs)
    if (b.members->ranges[s.member].counted_in_stage) f(s, b.members->factors[s.place]);
}

// Returns the n row (or column) sums of a weight, which start at `at` in the buffer of sums.
TensorView sums_at(const TensorView& sums, int64_t at, int64_t n) { return part(sums, at, at + n); }

// Computes the sums of rows and columns, followed in the output by the sums of w^2, one per part of
// a weight.
void run_sums(const BoundOp& b) {
  const FactorSums& of = b.op->as<AdafactorSums>().of;
  const TensorView gradient = flat(b.in(AdafactorSums::kGradient));
  const TensorView weights = flat(b.in(AdafactorSums::kWeights));
  const TensorView sums = b.out(AdafactorSums::kSums);
  const kernels::UpdateNumbers n = update_numbers({}, b.in(AdafactorSums::kReport));
  double* const squares = sums.as<double>() + of.factors;
  b.run(kernels::ClearArgs{sums});
  each_counted(b, [&](const MemberRun& s, const FactoredMomentRange& f) {
    const TensorView columns =
        f.columns > 0 ? sums_at(sums, f.columns_at, f.columns) : TensorView();
    b.run(kernels::FactorSumsArgs{gradient, run_of(b, s), n, of.epsilon,
                                  sums_at(sums, f.rows_at, f.rows), columns});
    b.run(kernels::SquaresArgs{part(weights, s.first, s.first + s.elements), squares + s.place});
  });
}

// Returns a workspace that suffices for every range of the gradient and of the weights, in bytes.
int64_t sums_workspace(const BoundOp& b) {
  kernels::FactorSumsArgs any;
  any.gradient = flat(b.in(AdafactorSums::kGradient));
  any.rows = b.out(AdafactorSums::kSums);
  const kernels::SquaresArgs squares = {any.gradient, nullptr};
  return std::max(b.workspace_bytes(squares), b.workspace_bytes(any));
}

// Returns the bytes of the scales of all rows and columns of a group.
int64_t scales_bytes(const TensorView& factors) {
  return factors.elements() * size_of(DType::kF32);
}

// The workspace of adafactor_squares is the workspace of the sums of squares, then the scales.
// Returns the bytes of the first.
int64_t partials_bytes(const BoundOp& b) {
  return b.workspace_bytes(kernels::SquaresArgs{flat(b.in(AdafactorSquares::kGradient)), nullptr});
}

void run_squares(const BoundOp& b) {
  using A = AdafactorSquares;
  const TensorView gradient = flat(b.in(A::kGradient)), factors = b.out(A::kFactors);
  const kernels::UpdateNumbers n = update_numbers(b.in(A::kStep), b.in(A::kReport));
  const auto* sums = b.in(A::kSums).as<double>();
  auto* squares = b.out(A::kUpdateSquares).as<double>();
  float* means = factors.f32();
  b.run(kernels::ClearArgs{b.out(A::kUpdateSquares)});
  for (const FactoredMomentRange& f : b.members->factors)
    b.run(kernels::FactorMeansArgs{shape_of(f), n, b.op->as<A>().of.decay_power, sums + f.rows_at,
                                   columns_of(sums, f), means + f.rows_at, columns_of(means, f)});
  const float* scales = make_scales(b, factors, b.launch.room<float>(partials_bytes(b)));
  each_counted(b, [&](const MemberRun& s, const FactoredMomentRange& f) {
    b.run(kernels::UpdateSquaresArgs{gradient, run_of(b, s), n, scales_at(scales, f),
                                     squares + s.place});
  });
}

int64_t squares_workspace(const BoundOp& b) {
  return partials_bytes(b) + scales_bytes(b.out(AdafactorSquares::kFactors));
}

void run(const BoundOp& b) {
  const Adafactor& a = b.op->as<Adafactor>();
  const TensorView step = b.in(Adafactor::kStep), factors = b.in(Adafactor::kFactors);
  const double* weight_squares = b.in(Adafactor::kSums).as<double>() + factors.elements();
  const double* update_squares = b.in(Adafactor::kUpdateSquares).as<double>();
  const float* scales = make_scales(b, factors, b.launch.room<float>());
  kernels::AdafactorArgs args;
  args.update = update_operands(b, a.update);
  args.constants = update_constants(a.update);
  args.numbers = update_numbers(step, b.in(Adafactor::kReport));
  for (const auto& [place, part] : part_ranges(b, a.update, update_seed(b, step))) {
    const FactoredMomentRange& f = b.members->factors[place];
    args.update.ranges = part.ranges;
    args.scales = scales_at(scales, f);
    args.norms = {weight_squares + place, update_squares + place, static_cast<double>(f.elements()),
                  a.least_scale, a.update_clip};
    b.run(args);
  }
}

int64_t workspace(const BoundOp& b) { return scales_bytes(b.in(Adafactor::kFactors)); }

}  // namespace

template <>
const Binding& binding_for<AdafactorSums>() {
  static constexpr Binding kBinding = {run_sums, sums_workspace};
  return kBinding;
}
template <>
const Binding& binding_for<AdafactorSquares>() {
  static constexpr Binding kBinding = {run_squares, squares_workspace};
  return kBinding;
}
template <>
const Binding& binding_for<Adafactor>() {
  static constexpr Binding kBinding = {run, workspace};
  return kBinding;
}

}  // namespace tessera::runtime
