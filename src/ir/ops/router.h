// The router of a mixture of experts: which experts a token goes to, with which weights, and what
// keeps the experts evenly loaded.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };
constexpr const char* enum_names(RouterScore) { return "softmax|sigmoid"; }

// s = softmax(z) or sigmoid(z) of the logits z [E]. A token chooses the `chosen` experts with the
// largest s + bias, of equal ones the lowest. With `groups`, the experts are that many groups of
// neighbors; only the `groups_chosen` best groups take part, by the sum of their two largest
// s + bias. Listed by rising expert, with
//   weight_j = scale · s_j (/ (Σ over the chosen + 1e-20), with `renormalise`)
struct Route {
  static constexpr std::string_view kName = "route";
  enum In { kLogits, kBias };               // [B, T, E] f32, [E]
  enum Out { kWeights, kChoice, kScores };  // [B, T, K] f32, [B, T, K] i32, [B, T, E] f32
  int64_t chosen = 1;
  RouterScore score = RouterScore::kSoftmax;
  bool renormalise = true;
  double scale = 1;
  int64_t groups = 1, groups_chosen = 1;
  bool bias = false;
  static void fields(auto& self, auto&& visit) {
    visit("chosen", self.chosen, Print::kAlways, at_least(1));
    visit("score", self.score, Print::kAlways);
    visit("renormalise", self.renormalise, Print::kAlways);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
    visit("groups", self.groups, Print::kUnlessDefault, at_least(1));
    visit("groups_chosen", self.groups_chosen, Print::kUnlessDefault, at_least(1));
    visit("bias", self.bias);
  }
  static void inputs(const Route& a, auto&& slot) {
    slot(kLogits, 1);
    slot(kBias, a.bias);
  }
  static const OpRule rule;
  bool operator==(const Route&) const = default;
};

// The gradient of the logits by the weights. Neither the choice nor the bias has one.
struct RouteGrad {
  static constexpr std::string_view kName = "route_grad";
  enum In { kScores, kChoice, kDWeights };
  enum Out { kDLogits };
  RouterScore score = RouterScore::kSoftmax;
  bool renormalise = true;
  double scale = 1;
  static void fields(auto& self, auto&& visit) {
    visit("score", self.score, Print::kAlways);
    visit("renormalise", self.renormalise, Print::kAlways);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
  }
  static const OpRule rule;
  bool operator==(const RouteGrad&) const = default;
};

// What the losses of a router are made of. Of each sequence of T tokens, with n_e of its choices
// and the mean P_e of its scores (of sigmoids: each token's divided by their sum):
//   balance · E / (K · T) · Σ_e n_e P_e  +  z · mean_t logsumexp(z_t)²
// The loss of the step is their mean over the sequences, weighted by the sequences' loss tokens,
// and the sum over the layers. The first term is Megatron's seq_aux_loss and DeepSeek-V3's.
struct RouterLosses {
  RouterScore score = RouterScore::kSoftmax;
  double balance = 0, z = 0;
  static void fields(auto& self, auto&& visit) {
    visit("score", self.score, Print::kAlways);
    visit("balance", self.balance, Print::kUnlessDefault, kNotNegative);
    visit("z", self.z, Print::kUnlessDefault, kNotNegative);
  }
  bool operator==(const RouterLosses&) const = default;
};

// report += the losses of all sequences, and how loaded the busiest expert is.
struct RouterLoss {
  static constexpr std::string_view kName = "router_loss";
  enum In { kLogits, kScores, kChoice, kLabels };
  enum Out { kReport };
  RouterLosses of;
  static void fields(auto& self, auto&& visit) { RouterLosses::fields(self.of, visit); }
  static const OpRule rule;
  bool operator==(const RouterLoss&) const = default;
};

struct RouterLossGrad {
  static constexpr std::string_view kName = "router_loss_grad";
  enum In { kLogits, kScores, kChoice, kLabels, kStep };
  enum Out { kDLogits };
  RouterLosses of;
  bool scaled = false;  // multiplied by the loss scale of the step, the last input
  static void fields(auto& self, auto&& visit) {
    RouterLosses::fields(self.of, visit);
    visit("scaled", self.scaled);
  }
  static void inputs(const RouterLossGrad& a, auto&& slot) {
    for (const In required : {kLogits, kScores, kChoice, kLabels}) slot(required, 1);
    slot(kStep, a.scaled);
  }
  static const OpRule rule;
  bool operator==(const RouterLossGrad&) const = default;
};

// What the biases of a router are moved by, in the place of a gradient, for E experts of which a
// token chooses K:  load_e += E · n_e − K · N.  Its sign says whether e has more tokens than the
// mean.
struct RouterLoad {
  static constexpr std::string_view kName = "router_load";
  enum In { kChoice };  // [B, T, K] i32
  enum Out { kLoad };   // [E]
  int64_t experts = 1;
  DType into = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("into", self.into);
  }
  static const OpRule rule;
  bool operator==(const RouterLoad&) const = default;
};

// Of flat frames: bias −= rate · sign(load) (Wang et al. 2024; DeepSeek-V3).
struct BalanceUpdate {
  static constexpr std::string_view kName = "balance_update";
  enum In { kLoad, kReport };
  enum Out { kBias };
  double rate = 0;
  static void fields(auto& self, auto&& visit) {
    visit("rate", self.rate, Print::kAlways, kNotNegative);
  }
  static const OpRule rule;
  bool operator==(const BalanceUpdate&) const = default;
};

}  // namespace tessera
