// Writes a router, whose logits are f32, and gated experts in place of an MLP. The weights of
// experts are split over the expert axis, and over the tensor axis like those of an MLP.
#include "model/forward.h"

namespace tessera::model {

ValueId BlockWriter::experts(const std::string& name, ValueId x, int64_t inner) {
  const int64_t E = model_.experts, M = inner, F = model_.hidden;
  const RouterConfig& r = model_.router;
  const std::string router = name + ".router";
  const ValueId logits = builder_.emit_one(Matmul{.out = DType::kF32}, router,
                                           {x, matrix(router + ".weight", {E, F}, std_in())});
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
  const ValueId choice = routed[Route::kChoice], scores = routed[Route::kScores];
  builder_.emit(RouterLoss{{r.score, r.balance_loss, r.z_loss}}, router + ".loss",
                {logits, scores, choice, batch_.labels}, {batch_.report});

  const auto divided = [&](ValueId weight) {
    graph_[weight].sharding.place[AxisKind::kExpert] = 0;
    return weight;
  };
  const std::string own = name + ".experts";
  const ValueId up = divided(matrix(own + ".up.weight", {E, M, 2, F}, std_in(), 1));
  name_parts(up, 2, {{"gate", 1}, {"up", 1}});
  const ValueId down = divided(matrix(own + ".down.weight", {E, F, M}, std_out(), 2));
  return builder_.emit_one(Experts{.experts = E}, own,
                           {x, choice, routed[Route::kWeights], up, down});
}

}  // namespace tessera::model
