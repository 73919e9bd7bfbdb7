// Writes a router, whose logits are f32, and gated experts in place of an MLP. The weights of
// experts are split over the expert axis, and over the tensor axis like those of an MLP. Biases of
// expert outputs are an op of their own, since the outputs are partial sums over tensor ranks.
#include "model/layer_parts.h"

namespace tessera::model {

ValueId experts(BlockWriter& w, const std::string& name, ValueId x, int64_t inner,
                const ExpertsForm& form) {
  const ModelConfig& m = w.model();
  const int64_t E = m.experts, M = inner, F = m.hidden;
  const double deviation = std_in(m);
  const RouterConfig& r = m.router;
  Builder& builder = w.builder();
  const std::string router = name + ".router";
  ValueId logits = builder.emit_one(Matmul{.out = DType::kF32}, router,
                                    {x, w.matrix(router + ".weight", {E, F}, deviation)});
  if (form.biases)
    logits = w.sum(router + ".sum", {logits},
                   {w.vector(router + ".logit_bias", {E}, 0, kNone, deviation)});
  std::vector<ValueId> inputs = {logits};
  if (r.bias) {
    inputs.push_back(w.vector(router + ".bias", {E}, 0));
    builder.graph()[inputs.back()].policy = kBalancePolicy;
  }
  const auto routed = builder.emit(Route{.chosen = m.experts_per_token,
                                         .score = r.score,
                                         .renormalize = r.renormalize,
                                         .scale = r.scale,
                                         .groups = r.groups,
                                         .groups_chosen = r.groups_chosen,
                                         .group_score = r.group_score,
                                         .bias = r.bias},
                                   router, inputs);
  ValueId choice = routed[Route::kChoice];
  builder.emit(RouterLoss{{r.score, r.balance_loss, r.z_loss}, r.capacity_factor}, router + ".loss",
               {logits, routed[Route::kScores], choice, w.batch().labels}, {w.batch().report});
  if (r.capacity_factor > 0)
    choice = builder.emit_one(ExpertCapacity{.experts = E, .factor = r.capacity_factor},
                              router + ".capacity", {choice});

  const auto divided = [&](ValueId weight) {
    builder.graph()[weight].sharding.place[AxisKind::kExpert] = 0;
    return weight;
  };
  const std::string own = name + ".experts";
  const ValueId up = divided(w.matrix(own + ".up.weight", {E, M, 2, F}, deviation, 1));
  w.name_parts(up, 2, {{"gate", 1}, {"up", 1}});
  const ValueId down = divided(w.matrix(own + ".down.weight", {E, F, M}, std_out(m), 2));
  const ValueId weights = routed[Route::kWeights];
  const Experts experts = {.experts = E, .form = form.gate, .biased = form.biases};
  if (!form.biases) return builder.emit_one(experts, own, {x, choice, weights, up, down});
  const ValueId up_bias = divided(w.vector(own + ".up.bias", {E, M, 2}, 0, 1));
  const ValueId down_bias = divided(w.vector(own + ".down.bias", {E, F}, 0));
  const ValueId y = builder.emit_one(experts, own, {x, choice, weights, up, down, up_bias});
  const ValueId biases =
      builder.emit_one(ExpertBias{.experts = E}, own + ".down_bias", {choice, weights, down_bias});
  return w.sum(own + ".sum", {y, biases});
}

}  // namespace tessera::model
