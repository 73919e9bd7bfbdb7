// GPT-NeoX (Black et al. 2022) and Pythia: rotary positions in a share of each head, attention and
// MLP side by side on one residual stream, embedding and head apart.
#include "model/forward.h"

namespace tessera {
namespace {

void layer(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size(), inner = m.feed_forward;
  BlockWriter w(graph, batch, m, "layer", m.layers);
  const ValueId x = w.stream();

  const ValueId qkv = w.linear("attn.qkv", w.norm("norm1", x), {H, 3, D}, w.std_in());
  const ValueId out = w.matrix("attn.out.weight", {F, H, D}, w.std_out(), 1);
  const ValueId out_bias = w.vector("attn.out.bias", {F}, 0);
  ValueId attended = w.product("attn.out", w.attention(w.rotary(qkv)), out, 2);

  // Parallel residual: the MLP reads x too, and one sum adds both; else it reads x + attention.
  if (m.dropout > 0) attended = w.dropout("attn.drop", w.sum("attn.out", {attended}, {out_bias}));
  const std::vector<ValueId> bias1 =
      m.dropout > 0 ? std::vector<ValueId>{} : std::vector<ValueId>{out_bias};
  const ValueId middle = m.parallel_residual ? x : w.sum("residual1", {x, attended}, bias1);
  const ValueId up = w.linear("mlp.up", w.norm("norm2", middle), {inner}, w.std_in());
  const ValueId down = w.matrix("mlp.down.weight", {F, inner}, w.std_out(), 1);
  const ValueId down_bias = w.vector("mlp.down.bias", {F}, 0);
  ValueId fed = w.product("mlp.down", w.gelu("mlp.gelu", up), down);
  if (m.dropout > 0) fed = w.dropout("mlp.drop", w.sum("mlp.down", {fed}, {down_bias}));

  std::vector<ValueId> terms = {middle}, biases;
  if (m.parallel_residual) {
    terms.push_back(attended);
    biases = bias1;
  }
  terms.push_back(fed);
  if (m.dropout == 0) biases.push_back(down_bias);
  w.finish(w.sum("residual2", terms, biases));
}

}  // namespace

void neox(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed", 1);
    table = w.matrix("weight", {V, F}, w.std_in(), 0);
    w.finish(w.dropout("drop", w.embedding("tokens", batch.tokens, table)));
  }
  layer(graph, batch, m);
  BlockWriter w(graph, batch, m, "head", 1);
  const ValueId x = w.norm("norm", w.stream());
  if (!m.tied_embeddings) table = w.matrix("weight", {V, F}, w.std_in(), 0);
  w.linear_cross_entropy(x, table);
  w.finish_with_loss();
}

}  // namespace tessera
