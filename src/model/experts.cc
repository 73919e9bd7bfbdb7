// Writes a router, whose logits are f32, and gated experts in place of an MLP. The weights of
// experts are split over the expert axis, and over the tensor axis like those of an MLP. Biases of
// expert outputs are an op of their own, since the outputs are partial sums over tensor ranks.
#include "model/forward.h"

namespace tessera::model {

ValueId BlockWriter::experts(const std::string& name, ValueId x, int64_t inner,
                             const ExpertsForm& form) {
  const int64_t E = model_.experts, M = inner, F = model_.hidden;
  const RouterConfig& r = model_.router;
  const std::string router = name + ".router";
  ValueId logits = builder_.emit_one(Matmul{.out = DType::kF32}, router,
                                     {x, matrix(router + ".weight", {E, F}, std_in())});
  if (form.biases)
    logits =
        sum(router + ".sum", {logits}, {vector(router + ".logit_bias", {E}, 0, kNone, std_in())});
  std::vector<ValueId> inputs = {logits};
  if (r.bias) {
    inputs.push_back(vector(router + ".bias", {E}, 0));
    graph_[inputs.back()].policy = kBalancePolicy;
  }
  const auto routed = builder_.emit(Route{.chosen = model_.experts_per_token,
                                          .score = r.score,
                                          .renormalize = r.renormalize,
                                          .scale = r.scale,
                                          .groups = r.groups,
                                          .groups_chosen = r.groups_chosen,
                                          .group_score = r.group_score,
                                          .bias = r.bias},
                                    router, inputs);
  ValueId choice = routed[Route::kChoice];
  builder_.emit(RouterLoss{{r.score, r.balance_loss, r.z_loss}, r.capacity_factor},
                router + ".loss", {logits, routed[Route::kScores], choice, batch_.labels},
                {batch_.report});
  if (r.capacity_factor > 0)
    choice = builder_.emit_one(ExpertCapacity{.experts = E, .factor = r.capacity_factor},
                               router + ".capacity", {choice});

  const auto divided = [&](ValueId weight) {
    graph_[weight].sharding.place[AxisKind::kExpert] = 0;
    return weight;
  };
  const std::string own = name + ".experts";
  const ValueId up = divided(matrix(own + ".up.weight", {E, M, 2, F}, std_in(), 1));
  name_parts(up, 2, {{"gate", 1}, {"up", 1}});
  const ValueId down = divided(matrix(own + ".down.weight", {E, F, M}, std_out(), 2));
  const ValueId weights = routed[Route::kWeights];
  const Experts experts = {.experts = E, .form = form.gate, .biased = form.biases};
  if (!form.biases) return builder_.emit_one(experts, own, {x, choice, weights, up, down});
  const ValueId up_bias = divided(vector(own + ".up.bias", {E, M, 2}, 0, 1));
  const ValueId down_bias = divided(vector(own + ".down.bias", {E, F}, 0));
  const ValueId y = builder_.emit_one(experts, own, {x, choice, weights, up, down, up_bias});
  const ValueId biases =
      builder_.emit_one(ExpertBias{.experts = E}, own + ".down_bias", {choice, weights, down_bias});
  return sum(own + ".sum", {y, biases});
}

}  // namespace tessera::model
