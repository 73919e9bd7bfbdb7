// Bindings of the router and of its losses. A binding translates the attributes and operands of an
// op to the arguments of its kernel, once per program; what is constant over a run (scores, groups,
// scales) is converted here and not in the kernel.
#include <algorithm>
#include <cmath>

#include "ir/state.h"
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {
namespace {

kernels::RouterScoreKind kind_of_score(RouterScore s) {
  return s == RouterScore::kSoftmax ? kernels::RouterScoreKind::kSoftmax
                                    : kernels::RouterScoreKind::kSigmoid;
}

// Returns the number of pairs that an expert keeps in a sequence, given the choice [B, T, K]: in
// doubles and in the order of Megatron's get_capacity. T is enough for all pairs.
int64_t capacity_of(const TensorView& choice, int64_t experts, double factor) {
  const auto pairs = static_cast<double>(choice.shape[1] * choice.shape[2]);
  const double capacity = std::ceil(pairs / static_cast<double>(experts) * factor);
  return static_cast<int64_t>(std::clamp(capacity, 1.0, static_cast<double>(choice.shape[1])));
}

kernels::ExpertCapacityArgs capacity_args(const BoundOp& b) {
  const ExpertCapacity& a = b.op->as<ExpertCapacity>();
  const TensorView choice = b.in(ExpertCapacity::kChoice);
  return {a.experts, capacity_of(choice, a.experts, a.factor), choice,
          b.out(ExpertCapacity::kKept)};
}

kernels::RouteArgs args(const BoundOp& b) {
  const Route& a = b.op->as<Route>();
  return {{kind_of_score(a.score), a.renormalize, static_cast<float>(a.scale), a.groups,
           a.groups_chosen, a.group_score == GroupScore::kMaximum},
          b.in(Route::kLogits),
          b.in(Route::kBias),
          b.out(Route::kChoice),
          b.out(Route::kWeights),
          b.out(Route::kScores)};
}

kernels::RouteGradArgs grad_args(const BoundOp& b) {
  const RouteGrad& a = b.op->as<RouteGrad>();
  return {{.score = kind_of_score(a.score),
           .renormalize = a.renormalize,
           .scale = static_cast<float>(a.scale)},
          b.in(RouteGrad::kScores),
          b.in(RouteGrad::kChoice),
          b.in(RouteGrad::kDWeights),
          b.out(RouteGrad::kDLogits)};
}

kernels::RouterLossForm form_of(const RouterLosses& a) {
  return {kind_of_score(a.score), static_cast<float>(a.balance), static_cast<float>(a.z)};
}

kernels::RouterLossArgs loss_args(const BoundOp& b) {
  const RouterLoss& a = b.op->as<RouterLoss>();
  const TensorView report = b.out(RouterLoss::kReport), choice = b.in(RouterLoss::kChoice);
  const bool drops = a.capacity_factor > 0;
  const int64_t experts = b.in(RouterLoss::kScores).shape[-1];
  const bool adds = loss_sum(b, report, b.op->inputs[RouterLoss::kLabels]) != nullptr;
  return {form_of(a.of),
          b.in(RouterLoss::kLogits),
          b.in(RouterLoss::kScores),
          choice,
          b.in(RouterLoss::kLabels),
          adds ? number_at(report, kRouterLoss) : nullptr,
          adds ? number_at(report, kBusiestExpert) : nullptr,
          adds ? number_at(report, kLoadEntropy) : nullptr,
          drops ? capacity_of(choice, experts, a.capacity_factor) : 0,
          adds && drops ? number_at(report, kDroppedPairs) : nullptr};
}

kernels::RouterLossGradArgs loss_grad_args(const BoundOp& b) {
  return {form_of(b.op->as<RouterLossGrad>().of), b.in(RouterLossGrad::kLogits),
          b.in(RouterLossGrad::kScores),          b.in(RouterLossGrad::kChoice),
          b.in(RouterLossGrad::kLabels),          loss_scale(b.in(RouterLossGrad::kStep)),
          b.out(RouterLossGrad::kDLogits)};
}

// Counts the choices of this rank's tokens, without the padding of a shard (part_shape).
void run_load(const BoundOp& b) {
  b.clear_if_fresh(RouterLoad::kLoad);
  const TensorView choice = b.in(RouterLoad::kChoice), load = b.out(RouterLoad::kLoad);
  const GlobalBox box = b.extents(b.op->inputs[RouterLoad::kChoice]);
  const int64_t tokens = box.end[1] - box.begin[1], row = choice.shape[1] * choice.shape[2];
  if (tokens == choice.shape[1]) return b.run(kernels::RouterLoadArgs{choice, load});
  const Shape own{tokens, choice.shape[2]};
  for (int64_t i = 0; tokens > 0 && i < choice.shape[0]; ++i)
    b.run(kernels::RouterLoadArgs{{choice.at(i * row), choice.dtype, own}, load});
}

void run_update(const BoundOp& b) {
  b.run(kernels::BalanceUpdateArgs{
      static_cast<float>(b.op->as<BalanceUpdate>().rate), flat(b.in(BalanceUpdate::kLoad)),
      number_at(b.in(BalanceUpdate::kReport), kSkip), flat(b.out(BalanceUpdate::kBias))});
}

}  // namespace

template <>
const Binding& binding_for<RouterLoad>() {
  static constexpr Binding kBinding = {run_load};
  return kBinding;
}
template <>
const Binding& binding_for<BalanceUpdate>() {
  static constexpr Binding kBinding = {run_update};
  return kBinding;
}
template <>
const Binding& binding_for<Route>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<ExpertCapacity>() {
  static constexpr Binding kBinding = kernel<capacity_args>();
  return kBinding;
}
template <>
const Binding& binding_for<RouteGrad>() {
  static constexpr Binding kBinding = kernel<grad_args>();
  return kBinding;
}
template <>
const Binding& binding_for<RouterLoss>() {
  static constexpr Binding kBinding = kernel<loss_args>();
  return kBinding;
}
template <>
const Binding& binding_for<RouterLossGrad>() {
  static constexpr Binding kBinding = kernel<loss_grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
