// Nested sections of a model's configuration: RoPE scaling and the router of experts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/range.h"
#include "ir/ops/router.h"

namespace tessera::model {

// How rotary frequencies change for contexts longer than that of the first training. kDynamic: as
// kLinear's for longer sequences only, which are rejected, so frequencies are unscaled.
enum class RotaryKind : uint8_t { kLlama3, kLinear, kDynamic, kYarn, kLongrope };
constexpr const char* enum_names(RotaryKind) { return "llama3|linear|dynamic|yarn|longrope"; }

// The formulas are in kernels/rotary.h.
struct RotaryScale {
  RotaryKind kind = RotaryKind::kLlama3;
  double factor = 1;  // 1: none, except longrope
  double low = 1, high = 4;
  int64_t context = 8192;
  double attention = 0;  // 0: by the kind
  bool truncate = true;
  std::vector<double> short_factors, long_factors;

  bool scales() const {
    return kind == RotaryKind::kLongrope || (kind != RotaryKind::kDynamic && factor != 1);
  }

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "llama3 | linear | dynamic | yarn | longrope: how frequencies change");
    visit("factor", self.factor, "by which slow rotary frequencies are lowered; 1: none");
    visit("low", self.low,
          "llama3, yarn: dimensions of fewer turns in the first context are slow (beta_slow)");
    visit("high", self.high, "llama3, yarn: dimensions of more turns stay as they are (beta_fast)");
    visit("context", self.context, "the first context: what the model saw before it was scaled");
    visit("attention", self.attention,
          "yarn, longrope: factor of cosines and sines; 0: the kind's own",
          zero_or_between(1e-6, 1e6));
    visit("truncate", self.truncate, "yarn: the bounds low and high are rounded to dimensions");
    visit("short_factors", self.short_factors,
          "longrope: what divides each frequency up to the first context, one per pair");
    visit("long_factors", self.long_factors, "longrope: the same in longer sequences");
  }
};

// The routers of a mixture of experts; ir/ops/router.h has the formulas.
struct RouterConfig {
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = true;
  double scale = 1;
  int64_t groups = 1, groups_chosen = 1;
  double balance_loss = 0, z_loss = 0;
  bool bias = false;
  double bias_rate = 1e-3;

  static void fields(auto& self, auto&& visit) {
    visit("score", self.score, "softmax | sigmoid: the function that turns logits into scores");
    visit("renormalize", self.renormalize, "divide the weights of a token's experts by their sum");
    visit("scale", self.scale, "factor of the weights");
    visit("groups", self.groups, "groups that the experts form");
    visit("groups_chosen", self.groups_chosen,
          "best groups per token, which all its experts belong to");
    visit("balance_loss", self.balance_loss,
          "coefficient of the load-balancing loss per sequence and layer; 0: none",
          between(0, kHuge));
    visit("z_loss", self.z_loss,
          "coefficient of the z-loss, the mean of logsumexp(logits)^2 per layer; 0: none",
          between(0, kHuge));
    visit("bias", self.bias, "choose experts by score + bias, with biases that follow the load");
    visit("bias_rate", self.bias_rate, "change of a bias per step", between(0, kHuge));
  }
};

}  // namespace tessera::model
