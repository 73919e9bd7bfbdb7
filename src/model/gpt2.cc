// GPT-2 (Radford et al. 2019): learned positions, norms before each sublayer, the head tied to the
// embedding.
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
  const ValueId attended = w.product("attn.out", w.attention(qkv), out, 2);
  const ValueId middle =
      m.dropout > 0 ? w.sum("residual1",
                            {x, w.dropout("attn.drop", w.sum("attn.out", {attended}, {out_bias}))})
                    : w.sum("residual1", {x, attended}, {out_bias});

  const ValueId up = w.linear("mlp.up", w.norm("norm2", middle), {inner}, w.std_in());
  const ValueId down = w.matrix("mlp.down.weight", {F, inner}, w.std_out(), 1);
  const ValueId down_bias = w.vector("mlp.down.bias", {F}, 0);
  const ValueId fed = w.product("mlp.down", w.gelu("mlp.gelu", up), down);
  w.finish(m.dropout > 0
               ? w.sum("residual2",
                       {middle, w.dropout("mlp.drop", w.sum("mlp.down", {fed}, {down_bias}))})
               : w.sum("residual2", {middle, fed}, {down_bias}));
}

}  // namespace

void gpt2(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed", 1);
    table = w.matrix("weight", {V, F}, w.std_in(), 0);
    const ValueId positions = w.matrix("position.weight", {m.context, F}, w.std_in());
    const ValueId x = w.sum("sum", {w.embedding("tokens", batch.tokens, table),
                                    w.embedding("positions", batch.positions, positions)});
    w.finish(w.dropout("drop", x));
  }
  layer(graph, batch, m);
  BlockWriter w(graph, batch, m, "head", 1);
  const ValueId x = w.norm("norm", w.stream());
  if (!m.tied_embeddings) table = w.matrix("weight", {V, F}, w.std_in(), 0);
  w.linear_cross_entropy(x, table);
  w.finish_with_loss();
}

}  // namespace tessera
