// The norms and their gradient, for one instruction set.
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/sum_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

struct Moments {
  float mean, rstd;
};

// Two passes over a row that is in cache. The second uses deviations from the first mean and
// corrects that mean by what they leave (Chan et al. 1983), so nothing cancels if mean^2 is much
// larger than the variance.
HWY_INLINE Moments RowMoments(Source x, int64_t at, int64_t d, bool centered, float epsilon) {
  const F f;
  const float inverse = 1.0f / static_cast<float>(d);
  float mean = 0;
  if (centered) {
    V sum = hn::Zero(f);
    for (int64_t c = 0; c < d; c += kLanes) sum = hn::Add(sum, LoadSome(x, at + c, d - c));
    mean = SumLanes(sum) * inverse;
  }
  V squares = hn::Zero(f), rests = hn::Zero(f);
  const V shift = hn::Set(f, mean);
  int64_t c = 0;
  for (; c + kLanes <= d; c += kLanes) {
    const V v = hn::Sub(Load(f, x, at + c), shift);
    squares = hn::MulAdd(v, v, squares);
    rests = hn::Add(rests, v);
  }
  if (c < d) {  // lanes beyond the row must not count as -mean
    const auto live = hn::FirstN(f, static_cast<size_t>(d - c));
    const V v = hn::IfThenElseZero(live, hn::Sub(LoadSome(x, at + c, d - c), shift));
    squares = hn::MulAdd(v, v, squares);
    rests = hn::Add(rests, v);
  }
  const float rest = centered ? SumLanes(rests) * inverse : 0;
  // The correction of the mean would change the variance by rest^2, which is below its last bit.
  return {mean + rest, 1.0f / std::sqrt(SumLanes(squares) * inverse + epsilon)};
}

HWY_NOINLINE inline void NormalizeRows(const NormRows& a, int64_t begin, int64_t end) {
  const F f;
  const Source x = a.sum.out;
  const int64_t d = a.sum.d;
  for (int64_t row = begin; row < end; ++row) {
    if (a.sum.term_count > 0) AddRow(a.sum, row);
    const Moments m = RowMoments(x, row * d, d, a.centered, a.epsilon);
    if (a.stats != nullptr) {
      a.stats[2 * row] = m.mean;
      a.stats[2 * row + 1] = m.rstd;
    }
    const V mean = hn::Set(f, m.mean), rstd = hn::Set(f, m.rstd);
    for (int64_t c = 0; c < d; c += kLanes) {
      const int64_t n = d - c;
      const V xh = hn::Mul(hn::Sub(LoadSome(x, row * d + c, n), mean), rstd);
      for (int k = 0; k < a.output_count; ++k) {
        const NormRows::Output& o = a.outputs[k];
        const V bias = o.bias ? LoadSome(o.bias, c, n) : hn::Zero(f);
        const V gain = hn::Add(LoadSome(o.gain, c, n), hn::Set(f, a.offset));
        StoreSome(hn::MulAdd(xh, gain, bias), o.y, row * d + c, n);
      }
    }
  }
}

// Writes dx of one row and adds the row to dgain and dbias. The first loop computes the means of g
// and g * xh; the second recomputes g and xh, which is cheaper than storing them.
HWY_INLINE void NormGradRow(const NormGradRows& a, int64_t row, float* dgain, float* dbias) {
  const F f;
  const int64_t d = a.d, at = row * d;
  const V mean = hn::Set(f, a.stats[2 * row]), rstd = hn::Set(f, a.stats[2 * row + 1]);
  const V offset = hn::Set(f, a.offset);
  V sum_g = hn::Zero(f), sum_gx = hn::Zero(f);
  for (int64_t c = 0; c < d; c += kLanes) {
    const int64_t n = d - c;
    const V dy = LoadSome(a.dy, at + c, n);
    const V xh = hn::Mul(hn::Sub(LoadSome(a.x, at + c, n), mean), rstd);
    const V g = hn::Mul(dy, hn::Add(LoadSome(a.gain, c, n), offset));
    sum_g = hn::Add(sum_g, g);
    sum_gx = hn::MulAdd(g, xh, sum_gx);
    StoreSome(hn::MulAdd(dy, xh, LoadSome({dgain, DType::kF32}, c, n)), {dgain, DType::kF32}, c, n);
    StoreSome(hn::Add(dy, LoadSome({dbias, DType::kF32}, c, n)), {dbias, DType::kF32}, c, n);
  }
  const float inverse = 1.0f / static_cast<float>(d);
  const V mean_g = hn::Set(f, a.centered ? SumLanes(sum_g) * inverse : 0.0f);
  const V mean_gx = hn::Set(f, SumLanes(sum_gx) * inverse);
  for (int64_t c = 0; c < d; c += kLanes) {
    const int64_t n = d - c;
    const V gain = hn::Add(LoadSome(a.gain, c, n), offset);
    const V g = hn::Mul(LoadSome(a.dy, at + c, n), gain);
    const V xh = hn::Mul(hn::Sub(LoadSome(a.x, at + c, n), mean), rstd);
    V dx = hn::Mul(rstd, hn::Sub(hn::Sub(g, mean_g), hn::Mul(xh, mean_gx)));
    if (a.accumulate) dx = hn::Add(dx, LoadSome(a.dx, at + c, n));
    StoreSome(dx, a.dx, at + c, n);
  }
}

HWY_NOINLINE inline void NormGradBlock(const NormGradRows& a, int64_t block) {
  float* const dgain = a.partials + block * 2 * a.d;
  for (int64_t c = 0; c < 2 * a.d; ++c) dgain[c] = 0;
  const int64_t end = HWY_MIN(a.rows, (block + 1) * kBlockRows);
  for (int64_t row = block * kBlockRows; row < end; ++row) NormGradRow(a, row, dgain, dgain + a.d);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
