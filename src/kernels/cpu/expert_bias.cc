// Output biases of experts on the CPU. Tokens are divided among threads; for the gradient of the
// biases, columns are, so each sum is computed by one thread in the order of tokens. Workspace:
// these sums in f32, [E, H].
#include "kernels/expert_bias.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "kernels/cpu/expert_bias_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/expert_bias_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(MixBiases);
HWY_EXPORT(BiasDots);
HWY_EXPORT(SumBiasGradients);
HWY_EXPORT(AddSums);

namespace {

// A is the forward or the gradient, `rows` its [N, H].
template <class A>
ExpertBiasRows bias_rows(const A& a, const TensorView& rows) {
  const int64_t H = columns_of(rows), N = rows_of(rows);
  CHECK(columns_of(a.bias) == H && a.choice.dtype == DType::kI32 && rows_of(a.choice) == N &&
            a.weights.elements() == a.choice.elements(),
        "expert biases {} of {} for choice {}", to_string(a.bias.shape), to_string(rows.shape),
        to_string(a.choice.shape));
  return {a.choice.template as<int32_t>(),
          a.weights.f32(),
          a.bias,
          a.first,
          rows_of(a.bias),
          H,
          columns_of(a.choice)};
}

}  // namespace

void launch(Cpu, const Launch& l, const ExpertBiasArgs& a) {
  const ExpertBiasRows r = bias_rows(a, a.y);
  const auto mix = &HWY_DYNAMIC_DISPATCH(MixBiases);
  const Sink y = a.y;
  parallel_rows(rows_of(a.y), r.hidden * r.chosen, l.threads,
                [&](int64_t begin, int64_t end) { mix(r, y, begin, end); });
}

int64_t workspace_bytes(Cpu, const ExpertBiasGradArgs& a, int) {
  return bytes_for<float>(a.bias.elements());
}

void launch(Cpu, const Launch& l, const ExpertBiasGradArgs& a) {
  const ExpertBiasRows r = bias_rows(a, a.dy);
  const int64_t N = rows_of(a.dy), n = a.bias.elements();
  const Source dy = a.dy;
  const auto dots = &HWY_DYNAMIC_DISPATCH(BiasDots);
  parallel_rows(N, r.hidden * r.chosen, l.threads,
                [&](int64_t begin, int64_t end) { dots(r, dy, a.d_weights.f32(), begin, end); });
  if (!a.d_bias) return;
  auto* const sums = l.room<float>();
  std::fill_n(sums, n, 0.0f);
  const auto sum = &HWY_DYNAMIC_DISPATCH(SumBiasGradients);
  parallel_rows(r.hidden, N * r.chosen, l.threads,
                [&](int64_t begin, int64_t end) { sum(r, dy, N, sums, begin, end); });
  const auto add = &HWY_DYNAMIC_DISPATCH(AddSums);
  const Sink to = a.d_bias;
  parallel_rows(n, 1, l.threads, [&](int64_t begin, int64_t end) { add(sums, to, begin, end); });
}

}  // namespace tessera::kernels
