// Ops over flat ranges, as a share of the memory bandwidth. Bytes are those that must be read and
// written once.
#include "bench/kernels/limits.h"
#include "kernels/elementwise.h"
#include "kernels/gradient_norm.h"
#include "kernels/initialize.h"
#include "kernels/update.h"

namespace tessera::bench {
namespace {

constexpr int64_t kN = 32 << 20;

void measure_adamw(benchmark::State& state, const kernels::Update& u) {
  const double learning_rate = 1e-5, step = 10, scale = 1, skip = 0;
  measure(state, kernels::UpdateArgs{.update = u,
                                     .constants = {.weight_decay = 0.1},
                                     .numbers = {&learning_rate, &step, &scale, &skip}});
}

void adamw(benchmark::State& state) {
  const Tensor w({kN}), m({kN}), v({kN}), g({kN});
  const kernels::UpdateRange all{0, kN, true};
  measure_adamw(state, {w, m, v, g, {}, {&all, 1}});
  report_bytes(state, 7.0 * kN * 4);
}
BENCHMARK(adamw)->UseRealTime()->Unit(benchmark::kMillisecond);

void adamw_with_bf16_copy(benchmark::State& state) {
  const Tensor w({kN}), m({kN}), v({kN}), g({kN}), low({kN}, DType::kBF16);
  const kernels::UpdateRange all{0, kN, true};
  measure_adamw(state, {w, m, v, g, low, {&all, 1}});
  report_bytes(state, 7.5 * kN * 4);
}
BENCHMARK(adamw_with_bf16_copy)->UseRealTime()->Unit(benchmark::kMillisecond);

// Weights and moments in bf16, rounded stochastically: half the bytes, and random numbers to
// generate.
void adamw_bf16_sr(benchmark::State& state) {
  const Tensor w({kN}, DType::kBF16), m({kN}, DType::kBF16), v({kN}, DType::kBF16), g({kN});
  const kernels::UpdateRange all{0, kN, true, 1};
  measure_adamw(state, {w, m, v, g, {}, {&all, 1}, true});
  report_bytes(state, 4.0 * kN * 4);
}
BENCHMARK(adamw_bf16_sr)->UseRealTime()->Unit(benchmark::kMillisecond);

void sum_of_squares(benchmark::State& state) {
  const Tensor g({kN});
  double sum = 0;
  measure(state, kernels::SquaresArgs{g, &sum});
  report_bytes(state, 1.0 * kN * 4);
}
BENCHMARK(sum_of_squares)->UseRealTime()->Unit(benchmark::kMillisecond);

void cast(benchmark::State& state) {
  const Tensor x({kN}), y({kN}, DType::kBF16);
  measure(state, kernels::CastArgs{x, y});
  report_bytes(state, 1.5 * kN * 4);
}
BENCHMARK(cast)->UseRealTime()->Unit(benchmark::kMillisecond);

void initialize_normal(benchmark::State& state) {
  const Tensor y({kN});
  for (auto _ : state) kernels::initialize_normal(y, {.key = 1}, omp_get_max_threads());
  using benchmark::Counter;
  state.counters["elements/s"] =
      Counter(static_cast<double>(kN) * static_cast<double>(state.iterations()), Counter::kIsRate);
  report_bytes(state, 1.0 * kN * 4);
}
BENCHMARK(initialize_normal)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::bench
