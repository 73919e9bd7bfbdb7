// One-pass optimizers on the CPU: constants are combined once per launch in double; then one pass
// reads gradient, weights and moments and writes the latter back. The pass is memory-bound, so
// everything is fused into it, including the rounding to the compute weights.
//
// schedule_free (Defazio et al. 2024) uses the same pass with other roles: `weights` are the
// average x, `iterate` is z, and y = z + beta1 (x − z) is what the compute weights hold. A step
// moves z along the gradient at y and then x toward z by `share`, the weight of this step among all
// so far. There is no first moment, so its bias is not corrected; y is computed in the same pass.
// InterpolateArgs computes y alone, after a resume or a validation.
//
// The exponential mean of `optimizer.ema` is a second, separate pass (WeightAverageArgs): mean +=
// (1 − decay) (weight − mean).
#include "kernels/update.h"

#include <cmath>
#include <string>

#define HWY_TARGET_INCLUDE "kernels/cpu/update_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/update_simd.h"

namespace tessera::kernels {

HWY_EXPORT(SweepUpdate);
HWY_EXPORT(SweepAverage);
HWY_EXPORT(SweepInterpolate);

UpdateStep step_of(const UpdateConstants& c, const UpdateNumbers& n) {
  return {.beta1 = c.beta1,
          .beta2 = c.beta2,
          .epsilon = c.epsilon,
          .weight_decay = c.weight_decay,
          .learning_rate = *n.learning_rate * c.rate_multiplier,
          .scale = *n.scale,
          .share = n.share != nullptr ? *n.share : 0,
          .step = static_cast<int64_t>(*n.step)};
}

namespace {

bool is_coded(const TensorView& moments) { return moments && moments.dtype == DType::kU8; }

CodedMoments coded(const TensorView& moments, const TensorView& scales) {
  if (!is_coded(moments)) return {};
  return {moments.as<uint8_t>(), scales.as<float>()};
}

void check_coded(const TensorView& moments, const TensorView& scales, const char* name) {
  const int64_t blocks = (moments.elements() + kMomentBlock - 1) / kMomentBlock;
  CHECK(is_coded(moments) ? scales.dtype == DType::kF32 && scales.elements() == blocks : !scales,
        "{}: {} moments with {} scales", name, moments.elements(), scales.elements());
}

}  // namespace

UpdateOperands operands_of(const Update& u, const UpdateStep& s, const char* name) {
  const int64_t n = u.weights.elements();
  const auto fits = [&](const TensorView& x) { return !x || x.elements() == n; };
  CHECK(u.gradient && fits(u.gradient) && fits(u.m) && fits(u.v) && fits(u.weights_low),
        "{}: {} weights, {} and {} moments, {} gradients", name, n, u.m.elements(), u.v.elements(),
        u.gradient.elements());
  CHECK(s.step >= 1, "{}: step {}, expected at least 1", name, s.step);
  check_coded(u.m, u.m_scales, name);
  check_coded(u.v, u.v_scales, name);
  const auto sink = [](const TensorView& x) { return x && !is_coded(x) ? Sink(x) : Sink(); };
  // With r = sqrt(1 - beta2^t), AdamW's step lr / (1 - beta1^t) m / (sqrt(v) / r + epsilon) equals
  // (r lr / (1 - beta1^t)) m / (sqrt(v) + r epsilon): the bias correction of v costs nothing per
  // element.
  const auto t = static_cast<double>(s.step);
  const double root = std::sqrt(1 - std::pow(s.beta2, t));
  const uint64_t lane = s.step;
  return {.weights = u.weights,
          .m = sink(u.m),
          .v = sink(u.v),
          .coded_m = coded(u.m, u.m_scales),
          .coded_v = coded(u.v, u.v_scales),
          .gradient = u.gradient,
          .weights_low = sink(u.weights_low),
          .stochastic = u.stochastic,
          .lane = lane,
          .scale = rounded(s.scale),
          .learning_rate = rounded(s.learning_rate),
          .beta1 = rounded(s.beta1),
          .one_minus_beta1 = rounded(1 - s.beta1),
          .beta2 = rounded(s.beta2),
          .one_minus_beta2 = rounded(1 - s.beta2),
          .epsilon = rounded(root * s.epsilon),
          .step_size = rounded(root * s.learning_rate / (1 - std::pow(s.beta1, t))),
          .keep = rounded(1 - s.learning_rate * s.weight_decay),
          .weight_decay = rounded(s.weight_decay),
          .share = rounded(s.share)};
}

// Divides the span from the first to the last range among the threads instead of the list of
// ranges, so the load is balanced for ranges of any length.
void sweep_runs(std::span<const UpdateRange> ranges,
                void (*f)(const UpdateOperands&, const UpdateRun&), const UpdateOperands& operands,
                int threads) {
  if (ranges.empty()) return;
  const int64_t origin = ranges.front().begin, length = ranges.back().end - origin;
  const int64_t unit = operands.coded_m || operands.coded_v ? kMomentBlock : 1;
  parallel_ranges(
      (length + unit - 1) / unit, kGrainElements / unit, threads, [&](int64_t from, int64_t to) {
        // Binary search for the first range that this thread's span touches.
        const int64_t begin = origin + from * unit, end = origin + std::min(length, to * unit);
        auto r = std::partition_point(ranges.begin(), ranges.end(),
                                      [&](const UpdateRange& x) { return x.end <= begin; });
        for (; r != ranges.end() && r->begin < end; ++r) {
          const int64_t first = std::max(begin, r->begin), last = std::min(end, r->end);
          f(operands, {first, last, r->decay, r->key, r->element + (first - r->begin)});
        }
      });
}

namespace {

void check_ranges(const Update& u, const char* name) {
  int64_t end = 0;
  for (const UpdateRange& r : u.ranges) {
    CHECK(r.begin >= end && r.begin <= r.end && r.end <= u.weights.elements(),
          "{} updates [{}, {}) of {} after {}", name, r.begin, r.end, u.weights.elements(), end);
    end = r.end;
    CHECK(!(is_coded(u.m) || is_coded(u.v)) || r.begin % kMomentBlock == 0,
          "{} updates [{}, {}), which begins within a block of moments", name, r.begin, r.end);
  }
}

}  // namespace

void launch(Cpu, const Launch& l, const UpdateArgs& a) {
  if (*a.numbers.skip != 0) return;
  const Update& u = a.update;
  const OptimizerTraits& o = traits_of(a.rule);
  const std::string name(o.name);
  CHECK(is_one_pass(o) && (u.v.data != nullptr) == o.moment2 &&
            (u.m || (!o.moment1 && !o.averages && a.constants.beta1 == 0)) &&
            !(o.averages && (is_coded(u.m) || is_coded(u.v))),
        "{}: {} and {} moments", name, u.m.elements(), u.v.elements());
  check_ranges(u, name.c_str());
  UpdateOperands operands = operands_of(u, step_of(a.constants, a.numbers), name.c_str());
  operands.rule = a.rule;
  // schedule_free has no first moment whose bias it would correct.
  if (o.averages)
    operands.step_size = rounded(*a.numbers.learning_rate * a.constants.rate_multiplier *
                                 std::sqrt(1 - std::pow(a.constants.beta2, *a.numbers.step)));
  sweep_runs(u.ranges, HWY_DYNAMIC_DISPATCH(SweepUpdate), operands, l.threads);
}

void launch(Cpu, const Launch& l, const WeightAverageArgs& a) {
  const int64_t n = a.average.elements();
  CHECK(a.weights.elements() == n && a.average.dtype == DType::kF32,
        "weight_average: {} weights, a mean of {}", a.weights.elements(), n);
  if (*a.skip != 0) return;
  const auto run = HWY_DYNAMIC_DISPATCH(SweepAverage);
  parallel_ranges(n, kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    run(Source(a.weights), Sink(a.average), a.rate, begin, end);
  });
}

void launch(Cpu, const Launch& l, const InterpolateArgs& a) {
  const int64_t n = a.to.elements();
  CHECK(a.from.elements() == n && a.towards.elements() == n, "interpolate: {} and {} into {}",
        a.from.elements(), a.towards.elements(), n);
  const auto run = HWY_DYNAMIC_DISPATCH(SweepInterpolate);
  parallel_ranges(n, kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    run(Source(a.from), Source(a.towards), Sink(a.to), a.share, begin, end);
  });
}

}  // namespace tessera::kernels
