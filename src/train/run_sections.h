// The sections of the run file: plain structs with their defaults, listed once in fields().
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "compile/optimizer.h"
#include "ir/ops/update.h"
#include "train/checkpoint_section.h"
#include "train/data_section.h"
#include "train/divergence_section.h"
#include "train/evaluation_section.h"
#include "train/run_section.h"
#include "train/schedule.h"

namespace tessera {

enum class MomentType : uint8_t { kAuto, kFp32, kBf16 };
enum class Decay : uint8_t { kMatrices, kAll };

constexpr const char* enum_names(MomentType) { return "auto|fp32|bf16"; }
constexpr const char* enum_names(Decay) { return "matrices|all"; }

// Whether `layout` is found rather than given.
struct LayoutSearch {
  bool search = false;
  std::string cluster = "hardware.yaml";

  static void fields(auto& self, auto&& visit) {
    visit(
        "search", self.search,
        "take the fastest layout that is predicted for the ranks that start, and its batch.micro");
    visit("cluster", self.cluster,
          "for search: the machine, a file of tessera bench or a name of configs/clusters");
  }
};

struct BatchSection {
  int64_t global = 1, micro = 1;
  std::vector<int64_t> ramp;
  int64_t ramp_steps = 0;

  static void fields(auto& self, auto&& visit) {
    visit("global", self.global, "sequences a step, over all ranks");
    visit("micro", self.micro,
          "sequences that a rank computes at once; divides global / data ranks");
    visit("ramp", self.ramp,
          "sequences of the first steps of the run, such as 64, 128, 192, before global");
    visit("ramp_steps", self.ramp_steps, "steps that each of these holds");
  }
};

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  Decay decay = Decay::kMatrices;
  double clip_norm = 1;
  MomentType moments = MomentType::kAuto;
  Rounding rounding = Rounding::kStochastic;
  double decay_power = 0.8, update_clip = 1, least_scale = 1e-3;
  bool scale_by_weight = true;
  std::vector<std::string> freeze;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind,
          "the update rule; the defaults below are adamw's (docs/optimizers.md)");
    visit("learning_rate", self.learning_rate, "the peak, which the schedule scales");
    visit("beta1", self.beta1, "decay of the first moment; sgd and adafactor: 0: none is kept");
    visit("beta2", self.beta2, "decay of the second moment; of lion's only one");
    visit("epsilon", self.epsilon, "added to the root of the second moment; adafactor: to squares");
    visit("weight_decay", self.weight_decay, "decoupled (sgd: added to the gradient)");
    visit("decay", self.decay, "what decays: matrices alone, or norms and biases too");
    visit("clip_norm", self.clip_norm, "largest norm of the whole gradient; 0: no clipping");
    visit("moments", self.moments, "their type; auto: bf16 with precision bf16_sr, else fp32");
    visit("rounding", self.rounding, "of weights and moments that are kept in bf16 alone");
    visit("decay_power", self.decay_power, "adafactor: its second moment decays by 1 - step^-this");
    visit("update_clip", self.update_clip, "adafactor: largest root mean square of an update");
    visit("scale_by_weight", self.scale_by_weight,
          "adafactor: the rate is times the root mean square of the weight");
    visit("least_scale", self.least_scale, "adafactor: which counts as this at least");
    visit("freeze", self.freeze,
          "weights that are not trained, by name, * for any text, such as embed.*");
  }
};

// What an optimizer starts from where the run file gives its kind alone.
OptimizerSection optimizer_defaults(OptimizerKind kind);

struct LoraSection {
  int64_t rank = 0;
  double alpha = 16;
  std::vector<std::string> targets;

  static void fields(auto& self, auto&& visit) {
    visit("rank", self.rank, "train adapters of this rank, and nothing else; 0: none");
    visit("alpha", self.alpha, "an adapter counts alpha / rank times");
    visit(
        "targets", self.targets,
        "weights that get one, * for any text, such as *.attn.*; none: all of a layer's products");
  }
};

struct LossScaleSection {
  double initial = 1024, least = 1;
  int64_t window = 1000, hysteresis = 2;

  static void fields(auto& self, auto&& visit) {
    visit("initial", self.initial, "what the gradient of each token's loss begins with");
    visit("least", self.least, "a step that overflows at this scale ends the run");
    visit("window", self.window, "steps without overflow after which the scale doubles");
    visit("hysteresis", self.hysteresis, "overflows in a window before the scale is halved");
  }
};

struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t steps = 1000, warmup_steps = 0;
  WarmUp warmup = WarmUp::kLinear;
  double floor = 0;
  FloorRule floor_rule = FloorRule::kBlend;
  int64_t decay_steps = 0;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "shape of the learning rate after the warm-up");
    visit("steps", self.steps, "length of the run");
    visit("warmup_steps", self.warmup_steps, "steps before the shape begins");
    visit("warmup", self.warmup, "linear: from zero to the peak; constant: at the peak, as T5's");
    visit("floor", self.floor, "lowest learning rate, as a share of the peak");
    visit("floor_rule", self.floor_rule,
          "blend: min + (max - min) x shape; clamp: the larger of floor and shape");
    visit("decay_steps", self.decay_steps,
          "steps until the floor, warm-up excluded (wsd: length of the last decay); 0: to the end");
  }
};

struct MetricsSection {
  int64_t every_steps = 1, validate_every_steps = 100, validate_sequences = 0;
  bool tensorboard = true;
  int64_t trace_step = 0;

  static void fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "how often a line is written to metrics.jsonl");
    visit("validate_every_steps", self.validate_every_steps, "0: only at the end");
    visit("validate_sequences", self.validate_sequences, "of each validation set; 0: all of it");
    visit("tensorboard", self.tensorboard, "write event files too");
    visit("trace_step", self.trace_step, "write the timeline of this step as trace.json; 0: none");
  }
};

}  // namespace tessera
