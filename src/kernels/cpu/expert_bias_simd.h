// Output biases of experts, for one instruction set.
#include "kernels/cpu/experts_rows.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Writes the sums of tokens begin … end - 1 to y [N, hidden].
HWY_NOINLINE inline void MixBiases(const ExpertBiasRows& a, Sink y, int64_t begin, int64_t end) {
  const F f;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t c = 0; c < a.hidden; c += kLanes) {
      V sum = hn::Zero(f);
      for (int64_t pair = t * a.chosen; pair < (t + 1) * a.chosen; ++pair)
        if (const int64_t e = a.row(pair); e >= 0)
          sum = hn::MulAdd(hn::Set(f, a.weights[pair]),
                           LoadSome(a.bias, e * a.hidden + c, a.hidden - c), sum);
      StoreSome(sum, y, t * a.hidden + c, a.hidden - c);
    }
}

// d_weights of tokens begin … end - 1.
HWY_NOINLINE inline void BiasDots(const ExpertBiasRows& a, Source dy, float* d_weights,
                                  int64_t begin, int64_t end) {
  const F f;
  for (int64_t pair = begin * a.chosen; pair < end * a.chosen; ++pair) {
    const int64_t e = a.row(pair), t = pair / a.chosen;
    V sum = hn::Zero(f);
    for (int64_t c = 0; e >= 0 && c < a.hidden; c += kLanes)
      sum = hn::MulAdd(LoadSome(a.bias, e * a.hidden + c, a.hidden - c),
                       LoadSome(dy, t * a.hidden + c, a.hidden - c), sum);
    d_weights[pair] = SumLanes(sum);
  }
}

// sums[e, c] += Σ weights · dy over all tokens, for columns begin … end - 1 of sums [experts,
// hidden].
HWY_NOINLINE inline void SumBiasGradients(const ExpertBiasRows& a, Source dy, int64_t tokens,
                                          float* sums, int64_t begin, int64_t end) {
  const F f;
  for (int64_t pair = 0; pair < tokens * a.chosen; ++pair) {
    const int64_t e = a.row(pair);
    if (e < 0) continue;
    const V weight = hn::Set(f, a.weights[pair]);
    const int64_t from = pair / a.chosen * a.hidden, to = e * a.hidden;
    for (int64_t c = begin; c < end; c += kLanes) {
      const Sink sum(sums, DType::kF32);
      StoreSome(hn::MulAdd(weight, LoadSome(dy, from + c, end - c), LoadSome(sum, to + c, end - c)),
                sum, to + c, end - c);
    }
  }
}

HWY_NOINLINE inline void AddSums(const float* sums, Sink to, int64_t begin, int64_t end) {
  const Source from(sums, DType::kF32);
  for (int64_t i = begin; i < end; i += kLanes)
    StoreSome(hn::Add(LoadSome(to, i, end - i), LoadSome(from, i, end - i)), to, i, end - i);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
