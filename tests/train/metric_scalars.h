// Lines of metrics.jsonl that have every figure, each with another value.
#pragma once

#include "train/metric_scalars.h"

namespace tessera::train {

inline StepMetrics full_step() {
  StepMetrics m{.step = 7,
                .tokens = 14336,
                .loss = 2.5,
                .grad_norm = 0.75,
                .learning_rate = 0.001,
                .step_s = 1.5,
                .data_s = 0.125,
                .resident_bytes = 4096,
                .tokens_per_s = 9000,
                .model_flops_per_s = 1e12,
                .model_flops_share = 0.625};
  m.communication =
      StepCommunication{0.25, 0.375, 0.0625, {1000, 2000, 3000, 4000}, /*slowest_rank=*/3, 1.25};
  m.loss_scale = LossScaleMetrics{65536, true};
  m.router = RouterMetrics{0.01, 1.75, 0.875, 0.125};
  m.z_loss = 0.002;
  m.mtp_loss = 3.25;
  m.noise_scale = 96.5;
  return m;
}

inline ValidationMetrics full_validation() {
  return {.step = 8, .name = "wiki", .validation_loss = 3.5, .bits_per_byte = 1.125};
}

inline ValidationMetrics full_validation_of_pairs() {
  ValidationMetrics m{.step = 8, .name = "pairs", .validation_loss = 0.5};
  m.preference = PreferenceMetrics{.chosen_reward = 0.75,
                                   .rejected_reward = -0.25,
                                   .accuracy = 0.875,
                                   .chosen_log_prob = -7.5,
                                   .rejected_log_prob = -9.5,
                                   .kl = 0.125,
                                   .chosen_nll = 1.25};
  return m;
}

inline TaskMetrics full_task() {
  return {"piqa", 9, {{"accuracy", 0.5, 0.03125}, {"accuracy_length", 0.25, 0.015625}}};
}

}  // namespace tessera::train
