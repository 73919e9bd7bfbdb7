// The router of a mixture of experts: the experts of each token and their weights, the auxiliary
// losses, and the biases that balance the load without a loss.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };
constexpr const char* enum_names(RouterScore) { return "softmax|sigmoid"; }

// The score of a group of experts: the sum of its two best experts, or its best expert.
enum class GroupScore : uint8_t { kTopTwo, kMaximum };
constexpr const char* enum_names(GroupScore) { return "top_two|maximum"; }

// s = softmax(z) or sigmoid(z) of the logits z [E]. A token chooses the `chosen` experts with the
// largest s + bias; among equal ones, those with the lowest numbers. The experts form `groups`
// groups of consecutive numbers. Only experts of the `groups_chosen` groups with the largest
// `group_score` of s + bias can be chosen. Choices are in ascending order, with
//   weight_j = scale · s_j                               without `renormalize`
//   weight_j = scale · s_j / (Σ over the chosen + 1e-20) with it
struct Route {
  static constexpr std::string_view kName = "route";
  enum In { kLogits, kBias };               // [B, T, E] f32, [E]
  enum Out { kWeights, kChoice, kScores };  // [B, T, K] f32, [B, T, K] i32, [B, T, E] f32
  int64_t chosen = 1;
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = true;
  double scale = 1;
  int64_t groups = 1, groups_chosen = 1;
  GroupScore group_score = GroupScore::kTopTwo;
  bool bias = false;
  static void fields(auto& self, auto&& visit) {
    visit("chosen", self.chosen, Print::kAlways, at_least(1));
    visit("score", self.score, Print::kAlways);
    visit("renormalize", self.renormalize, Print::kAlways);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
    visit("groups", self.groups, Print::kUnlessDefault, at_least(1));
    visit("groups_chosen", self.groups_chosen, Print::kUnlessDefault, at_least(1));
    visit("group_score", self.group_score);
    visit("bias", self.bias);
  }
  static void inputs(const Route& a, auto&& slot) {
    slot(kLogits, 1);
    slot(kBias, a.bias);
  }
  static const OpRule rule;
  bool operator==(const Route&) const = default;
};

// Writes the gradient of the logits, given that of the weights. The choice and the bias have none.
struct RouteGrad {
  static constexpr std::string_view kName = "route_grad";
  enum In { kScores, kChoice, kDWeights };
  enum Out { kDLogits };
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = true;
  double scale = 1;
  static void fields(auto& self, auto&& visit) {
    visit("score", self.score, Print::kAlways);
    visit("renormalize", self.renormalize, Print::kAlways);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
  }
  static const OpRule rule;
  bool operator==(const RouteGrad&) const = default;
};

// Drops the pairs beyond the capacity of an expert: of the pairs of a token and an expert in a
// sequence of T tokens, in the order of tokens, each expert keeps the first
//   C = ceil(K · T / E · factor)
// `kept` is the choice, with −1 in place of a dropped expert. Whether a pair is kept depends on
// earlier tokens only (Megatron's drop policy `position`). Its weight stays as it is.
struct ExpertCapacity {
  static constexpr std::string_view kName = "expert_capacity";
  enum In { kChoice };  // [B, T, K] i32
  enum Out { kKept };   // [B, T, K] i32
  int64_t experts = 1;
  double factor = 1;
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("factor", self.factor, Print::kAlways, between(kTiny, kHuge));
  }
  static const OpRule rule;
  bool operator==(const ExpertCapacity&) const = default;
};

// The losses of a router. For a sequence of T tokens, n_e choices of expert e and the mean P_e of
// its scores (sigmoid scores are first divided by their sum over the experts):
//   balance · E / (K · T) · Σ_e n_e P_e  +  z · mean_t logsumexp(z_t)²
// The loss of the step is the mean over the sequences, weighted by their loss tokens, summed over
// the layers. The first term is Megatron's seq_aux_loss and DeepSeek-V3's sequence-wise balance
// loss.
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

// Adds to the report: the losses of all sequences, the load of the busiest expert relative to the
// mean, the entropy of the loads relative to that of even loads, and with `capacity_factor` the
// share of the pairs that ExpertCapacity drops. The choice is that of the router, before any pair
// is dropped.
struct RouterLoss {
  static constexpr std::string_view kName = "router_loss";
  enum In { kLogits, kScores, kChoice, kLabels };
  enum Out { kReport };
  RouterLosses of;
  double capacity_factor = 0;  // 0: no pair is dropped
  static void fields(auto& self, auto&& visit) {
    RouterLosses::fields(self.of, visit);
    visit("capacity_factor", self.capacity_factor, Print::kUnlessDefault, kNotNegative);
  }
  static const OpRule rule;
  bool operator==(const RouterLoss&) const = default;
};

struct RouterLossGrad {
  static constexpr std::string_view kName = "router_loss_grad";
  enum In { kLogits, kScores, kChoice, kLabels, kStep };
  enum Out { kDLogits };
  RouterLosses of;
  bool scaled = false;  // multiplies by the loss scale of the step, the last input
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

// load_e += E · n_e − K · N, for N tokens that choose K of E experts each, and n_e choices of
// expert e. It is the gradient of a router's biases: positive if e has more tokens than the mean.
struct RouterLoad {
  static constexpr std::string_view kName = "router_load";
  enum In { kChoice };  // [B, T, K] i32
  enum Out { kLoad };   // [E]
  int64_t experts = 1;
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("accum_dtype", self.accum_dtype);
  }
  static const OpRule rule;
  bool operator==(const RouterLoad&) const = default;
};

// bias −= rate · sign(load), on flat buffers (Wang et al. 2024; DeepSeek-V3).
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
