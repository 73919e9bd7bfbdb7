// Writes the projections of multi-head latent attention (DeepSeek-AI 2024; ir/ops/latent_heads.h):
//
//   x  ->  c_q = norm(x q_downᵀ)    ->  queries  [H, nope + rope] = c_q q_upᵀ
//   x  ->  c_kv = norm(x kv_downᵀ)  ->  keys [H, nope] and values [H, value] = c_kv kv_upᵀ
//   x  ->  shared [rope] = x k_ropeᵀ, a part of the key of every head
//
// The op latent_heads packs them as attention reads them. Tensor ranks divide the up projections by
// heads; they all have the down projections and norms.
#include "base/error.h"
#include "model/layer_parts.h"

namespace tessera::model {
namespace {

constexpr double kLatentEpsilon = 1e-6;  // whatever the model's norm_epsilon is

}  // namespace

ValueId latent_heads(BlockWriter& w, const std::string& name, ValueId x) {
  const ModelConfig& m = w.model();
  const LatentConfig& a = m.latent;
  const int64_t H = m.heads, D = a.key_width(), F = m.hidden, C = a.key_value_rank;
  const double deviation = std_in(m);
  const std::string q = name + ".q", kv = name + ".kv", k_rope = name + ".k_rope";
  // norm(x downᵀ), from part_down.weight [rank, F] and part_norm.gain [rank].
  const auto latent = [&](const std::string& part, int64_t rank) {
    const ValueId down = w.matrix(part + "_down.weight", {rank, F}, deviation);
    const ValueId c = w.product(part + "_down", x, down);
    const ValueId gain = w.vector(part + "_norm.gain", {rank}, 1);
    return w.builder().emit_one(RmsNorm{.epsilon = kLatentEpsilon}, part + "_norm", {c, gain});
  };
  ValueId queries = kNone;
  if (a.query_rank > 0) {
    const ValueId c = latent(q, a.query_rank);
    queries =
        w.product(q + "_up", c, w.matrix(q + "_up.weight", {H, D, a.query_rank}, deviation, 0));
  } else {
    queries = w.product(q, x, w.matrix(q + ".weight", {H, D, F}, deviation, 0));
  }
  const ValueId c = latent(kv, C);
  const ValueId up =
      w.matrix(kv + "_up.weight", {H, a.nope_width + a.value_width, C}, deviation, 0);
  const ValueId expanded = w.product(kv + "_up", c, up);
  const ValueId shared =
      w.product(k_rope, x, w.matrix(k_rope + ".weight", {a.rope_width, F}, deviation));
  return w.builder().emit_one(LatentHeads{}, name + ".heads", {queries, expanded, shared});
}

}  // namespace tessera::model
