// Writes the projections of multi-head latent attention (DeepSeek-AI 2024; ir/ops/latent_heads.h):
//
//   x  ->  c_q = norm(x q_downᵀ)    ->  queries  [H, nope + rope] = c_q q_upᵀ
//   x  ->  c_kv = norm(x kv_downᵀ)  ->  keys [H, nope] and values [H, value] = c_kv kv_upᵀ
//   x  ->  shared [rope] = x k_ropeᵀ, a part of the key of every head
//
// The op latent_heads packs them as attention reads them. Tensor ranks divide the up projections by
// heads; they all have the down projections and norms.
#include "base/error.h"
#include "model/forward.h"

namespace tessera::model {
namespace {

constexpr double kLatentEpsilon = 1e-6;  // whatever the model's norm_epsilon is

}  // namespace

ValueId BlockWriter::latent_heads(const std::string& name, ValueId x) {
  const LatentConfig& a = model_.latent;
  const int64_t H = model_.heads, D = a.key_width(), F = model_.hidden, C = a.key_value_rank;
  const std::string q = name + ".q", kv = name + ".kv", k_rope = name + ".k_rope";
  // norm(x downᵀ), from part_down.weight [rank, F] and part_norm.gain [rank].
  const auto latent = [&](const std::string& part, int64_t rank) {
    const ValueId down = matrix(part + "_down.weight", {rank, F}, std_in());
    const ValueId c = product(part + "_down", x, down);
    const ValueId gain = vector(part + "_norm.gain", {rank}, 1);
    return builder_.emit_one(RmsNorm{.epsilon = kLatentEpsilon}, part + "_norm", {c, gain});
  };
  ValueId queries = kNone;
  if (a.query_rank > 0) {
    const ValueId c = latent(q, a.query_rank);
    queries = product(q + "_up", c, matrix(q + "_up.weight", {H, D, a.query_rank}, std_in(), 0));
  } else {
    queries = product(q, x, matrix(q + ".weight", {H, D, F}, std_in(), 0));
  }
  const ValueId c = latent(kv, C);
  const ValueId up = matrix(kv + "_up.weight", {H, a.nope_width + a.value_width, C}, std_in(), 0);
  const ValueId expanded = product(kv + "_up", c, up);
  const ValueId shared =
      product(k_rope, x, matrix(k_rope + ".weight", {a.rope_width, F}, std_in()));
  return builder_.emit_one(LatentHeads{}, name + ".heads", {queries, expanded, shared});
}

}  // namespace tessera::model
