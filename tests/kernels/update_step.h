// A step of an optimizer as tests give it to the kernels of the CPU.
#pragma once

#include <vector>

#include "kernels/update.h"

namespace tessera::kernels {

struct StepNumbers {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double step = 1, scale = 1, skip = 0, share = 0;

  UpdateConstants constants() const { return {beta1, beta2, epsilon, weight_decay}; }
  UpdateNumbers numbers() const { return {&learning_rate, &step, &scale, &skip, &share}; }
};

inline void update(OptimizerKind rule, const Update& u, const StepNumbers& s, int threads = 1) {
  launch(Cpu(), {.threads = threads}, UpdateArgs{rule, u, s.constants(), s.numbers()});
}
inline void adamw(const Update& u, const StepNumbers& s, int threads = 1) {
  update(OptimizerKind::kAdamW, u, s, threads);
}

inline TensorView view_of(std::vector<double>& numbers) {
  return {numbers.data(), DType::kF64, {static_cast<int64_t>(numbers.size())}};
}

}  // namespace tessera::kernels
