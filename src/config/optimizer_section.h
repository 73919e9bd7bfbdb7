// The sections `loss`, `optimizer`, `lora` and `loss_scale` of the run file: how weights are
// trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/key_errors.h"
#include "base/range.h"
#include "compile/optimizer.h"
#include "ir/ops/update.h"

namespace tessera::config {

enum class MomentType : uint8_t { kAuto, kFp32, kBf16, k8Bit };
enum class Decay : uint8_t { kMatrices, kAll };

constexpr const char* enum_names(MomentType) { return "auto|fp32|bf16|8bit"; }
constexpr const char* enum_names(Decay) { return "matrices|all"; }

enum class NewtonSchulzType : uint8_t { kF32, kBf16 };
constexpr const char* enum_names(NewtonSchulzType) { return "f32|bf16"; }

// A group of weights with an optimizer of its own, as the run file gives it.
struct OptimizerGroupSection {
  std::vector<std::string> match;  // names of weights, '*' for any text
  double learning_rate_multiplier = 1;
  Tree settings = Tree::object();  // keys of the section `optimizer`; see settings_of()
};
void read_value(const Tree& tree, std::vector<OptimizerGroupSection>& value,
                const SourceLocation& place);
Tree write_value(const std::vector<OptimizerGroupSection>& x);
inline std::string type_name(const std::vector<OptimizerGroupSection>&) {
  return "list of {match, learning_rate_multiplier, kind, ...}";
}

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  Decay weight_decay_applies_to = Decay::kMatrices;
  double clip_norm = 1;
  double ema = 0;
  MomentType moment_dtype = MomentType::kAuto;
  Rounding rounding = Rounding::kStochastic;
  double decay_power = 0.8, clip_threshold = 1, min_parameter_scale = 1e-3;
  bool scale_parameter = true;
  double momentum = 0.95, qk_clip = 0;
  bool nesterov = true;
  int64_t newton_schulz_steps = 5;
  NewtonSchulzCoefficients newton_schulz_coefficients = NewtonSchulzCoefficients::kSimple;
  NewtonSchulzType newton_schulz_dtype = NewtonSchulzType::kF32;
  UpdateScale update_scale = UpdateScale::kSpectral;
  std::vector<std::string> freeze;
  std::vector<OptimizerGroupSection> groups;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "update rule; the defaults below are adamw's (docs/optimizers.md)");
    visit("learning_rate", self.learning_rate, "peak learning rate, which the schedule scales",
          between(kTiny, kHuge));
    visit("beta1", self.beta1, "decay of the first moment; sgd, adafactor: 0: no first moment",
          between(0, kBelowOne));
    visit("beta2", self.beta2, "decay of the second moment (docs/optimizers.md)",
          between(0, kBelowOne));
    visit("epsilon", self.epsilon,
          "added to the root of the second moment; adafactor: to squared gradients",
          between(kTiny, 1e6));
    visit("weight_decay", self.weight_decay, "weight decay, decoupled (sgd: added to the gradient)",
          between(0, 1e6));
    visit("weight_decay_applies_to", self.weight_decay_applies_to,
          "matrices | all: all includes norms and biases");
    visit("clip_norm", self.clip_norm, "largest norm of the whole gradient; 0: no clipping",
          zero_or_between(1e-30, 1e30));
    visit("ema", self.ema,
          "decay of an exponential moving average of the weights, such as 0.999; 0: no average",
          between(0, kBelowOne));
    visit("moment_dtype", self.moment_dtype,
          "dtype of the moments; auto: bf16 with precision bf16_sr, else fp32; 8bit: codes of 8 "
          "bits with a scale per 64 (adamw, lion, sgd)");
    visit("rounding", self.rounding,
          "rounding of weights and moments that are stored in bf16 only");
    visit("decay_power", self.decay_power,
          "adafactor: d in 1 - step^-d, the decay of its second moment", between(0, 1));
    visit("clip_threshold", self.clip_threshold, "adafactor: largest root mean square of an update",
          between(kTinyRoot, kHugeRoot));
    visit("scale_parameter", self.scale_parameter,
          "adafactor: multiply the rate by the root mean square of the weight");
    visit("min_parameter_scale", self.min_parameter_scale,
          "adafactor: lower bound of that root mean square", between(kTinyRoot, kHugeRoot));
    visit("momentum", self.momentum, "muon: decay of the momentum", between(0, kBelowOne));
    visit("nesterov", self.nesterov,
          "muon: the direction is momentum * m + (1 - momentum) * gradient; false: it is m");
    visit("newton_schulz_steps", self.newton_schulz_steps, "muon: iterations per update",
          between(1, 100));
    visit("newton_schulz_coefficients", self.newton_schulz_coefficients,
          "muon: simple | quintic | polar_express (docs/optimizers.md)");
    visit("newton_schulz_dtype", self.newton_schulz_dtype,
          "muon: dtype of the matrices in the iterations and on the wire");
    visit("update_scale", self.update_scale,
          "muon: spectral: 0.2 * sqrt(max(rows, columns)), for adamw's rates; shape: sqrt(max(1, "
          "rows / columns))");
    visit("qk_clip", self.qk_clip,
          "muon: limit of attention scores, such as 100 (MuonClip); 0: none",
          zero_or_between(kTiny, kHuge));
    visit("freeze", self.freeze,
          "weights that are not trained, by name, * for any text, such as embed.*");
    visit(
        "groups", self.groups,
        "weights with an optimizer of their own: {match: [embed.*], learning_rate_multiplier: 0.5, "
        "kind: sgd, ...} (docs/optimizers.md)");
  }
};

// Returns the defaults of an optimizer kind.
OptimizerSection optimizer_defaults(OptimizerKind kind);

// Returns the settings of the weights of a group. Keys that the group does not set come from
// `optimizer`, or from the defaults of the group's kind if it is a different one. Keys of the whole
// run (learning_rate, clip_norm, ema, rounding, freeze) always come from `optimizer`.
OptimizerSection settings_of(const OptimizerGroupSection& group, const OptimizerSection& optimizer);
// Returns the index of the first group that a weight matches, or nothing. `name` has no layer
// number: "layer.attn.qkv.weight".
std::optional<size_t> group_of(const OptimizerSection& optimizer, std::string_view name);

void check(const OptimizerSection& optimizer, KeyErrors& errors);

struct LossSection {
  double z_loss = 0, label_smoothing = 0, mtp_weight = 0.1;

  static void fields(auto& self, auto&& visit) {
    visit("z_loss", self.z_loss,
          "coefficient of the mean of logsumexp(logits)^2, which keeps logits small, such as 1e-4; "
          "0: none",
          between(0, 1e6));
    visit("label_smoothing", self.label_smoothing,
          "share of the target that is uniform over the vocabulary; 0: none",
          between(0, kBelowOne));
    visit("mtp_weight", self.mtp_weight,
          "with model.mtp_depth: factor of the mean loss of the additional predictions",
          between(0, 1e6));
  }
};

struct LoraSection {
  int64_t rank = 0;
  double alpha = 16;
  std::vector<std::string> targets;
  compile::AdapterKind kind = compile::AdapterKind::kLora;
  compile::AdapterScaling scaling = compile::AdapterScaling::kRank;
  compile::Quantization quantize = compile::Quantization::kNone;
  std::string from;

  static void fields(auto& self, auto&& visit) {
    visit("rank", self.rank, "train only LoRA adapters, of this rank; 0: no adapters", at_least(0));
    visit("alpha", self.alpha, "adapters are scaled by alpha / rank (see lora.scaling)",
          between(1e-9, 1e9));
    visit(
        "targets", self.targets,
        "weights with an adapter: names of modules or of parameters of experts as in PEFT, such as "
        "q_proj, all-linear or experts.down_proj, or patterns such as *.attn.*; none: all linear "
        "layers of each layer");
    visit("kind", self.kind,
          "dora: the norm of each output's weights is trained separately from their direction");
    visit("scaling", self.scaling, "rank: alpha / rank; rslora: alpha / sqrt(rank)");
    visit("quantize", self.quantize,
          "nf4: the frozen weights of the layers' linear modules are stored in 4 bits, as QLoRA "
          "does: NF4 with double quantization");
    visit("from", self.from,
          "PEFT folder with the adapters to start from; the other keys of lora default to its "
          "settings");
  }

  compile::AdapterPolicy policy() const { return {rank, alpha, targets, kind, scaling, quantize}; }
};

void check(const LoraSection& lora, KeyErrors& errors);

struct LossScaleSection {
  double initial = 1024, min = 1;
  int64_t window = 1000, hysteresis = 2;

  // 2^32 is Megatron-LM's first scale. Below 2^-24 the smallest f16 gradient is 1.
  static constexpr Range kScales = between(0x1p-24, 0x1p32);

  static void fields(auto& self, auto&& visit) {
    visit("initial", self.initial, "initial loss scale", kScales);
    visit("min", self.min, "minimum loss scale; a step that overflows at it ends the run", kScales);
    visit("window", self.window, "steps without overflow after which the scale doubles",
          between(1, kExactIntegers));
    visit("hysteresis", self.hysteresis, "overflows in a window before the scale is halved",
          between(1, 1000));
  }
};

void check(const LossScaleSection& scale, KeyErrors& errors);

}  // namespace tessera::config
