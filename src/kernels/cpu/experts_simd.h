// Loops over the rows of a tile of experts, for one instruction set.
#include "kernels/cpu/experts_rows.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void AddScaledRow(const ScaledRow& a) {
  const F f;
  const V factor = hn::Set(f, a.factor);
  int64_t i = 0;
  for (; i + kLanes <= a.n; i += kLanes)
    hn::StoreU(hn::MulAdd(factor, Load(f, a.x, i), hn::LoadU(f, a.sum + i)), f, a.sum + i);
  for (; i < a.n; ++i) a.sum[i] += a.factor * a.x[i];
}

HWY_NOINLINE inline float DotAndScale(const RowPair& a) {
  const F f;
  const V factor = hn::Set(f, a.factor);
  V sum0 = hn::Zero(f), sum1 = hn::Zero(f);
  const auto step = [&](int64_t i, V& sum) {
    const V x = LoadSome(a.x, i, a.n - i), y = LoadSome(a.y, i, a.n - i);
    sum = hn::MulAdd(x, y, sum);
    StoreSome(hn::Mul(factor, x), a.x, i, a.n - i);
    StoreSome(hn::Mul(factor, y), a.y, i, a.n - i);
  };
  for (int64_t i = 0; i < a.n; i += 2 * kLanes) {
    step(i, sum0);
    if (i + kLanes < a.n) step(i + kLanes, sum1);
  }
  return SumLanes(hn::Add(sum0, sum1));
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
