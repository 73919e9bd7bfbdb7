// The passes that rewrite a graph, before any rank or schedule is known. passes.cc has their order.
#pragma once

#include <string>
#include <vector>

#include "compile/layout.h"
#include "compile/optimizer.h"
#include "ir/program.h"

namespace tessera {

// attention → attention_scores, softmax, (dropout,) attention_mix; with `half` all of them in the
// type of activations. Before differentiate.
void materialise_attention(Graph& graph, bool half = false);
// Dropouts give their masks, which the backward then reads. Before shard.
void keep_masks(Graph& graph);
// linear_cross_entropy → matmul, cross_entropy on all logits at once. Before differentiate.
void unfuse_cross_entropy(Graph& graph);
// linear_cross_entropy → matmul into a value `logits` that the host reads.
void keep_logits(Graph& graph);
// attention → cached_attention over a cache of `context` tokens a layer. The keys and values that a
// layer makes of an encoder's output become a cache, too; with `encoded` they are there already,
// and neither they nor the encoder's output is computed.
void decode(Graph& graph, int64_t context, bool encoded);

// Adds the two adapter GEMMs to each GEMM with a target weight and freezes the model's weights.
// Runs before shard. Throws Error for a target that is not the weight of a GEMM.
void add_adapters(Graph& graph, const AdapterPolicy& adapters);
// Weights whose names match a pattern are not trained. Throws Error for a pattern that matches
// none.
void freeze(Graph& graph, const std::vector<std::string>& patterns);

// Types by policy: f32 leaves all as it is; bf16 and fp16 make weights and activations bf16 or f16
// (statistics, losses, weight gradients stay f32).
void apply_precision(Graph& graph, Precision precision);
// Of weights and activations.
DType type_of(Precision precision);
// Sums of weight gradients in that type: each op adds what it computed in f32 and rounds once.
// Behind differentiate and split_backward.
void narrow_gradients(Graph& graph, DType type);
// Products for weight gradients and the embedding's write a value of their own in the type of
// weights, `type`, which is then added to the sum. Behind narrow_gradients.
void accumulate_apart(Graph& graph, DType type);
// Gradients of the loss are multiplied by the step's loss scale, so that f16 holds them. Behind
// differentiate.
void scale_loss(Graph& graph);

// linear_cross_entropy, cross_entropy → the parts of one whose vocabulary is divided. Part of
// shard.
void divide_cross_entropy(Graph& graph);
// Places every value by each op's rule, on each axis of graph.mesh by itself; inserts the
// conversions between places; sets the values' parts. Weights are divided where the model marks
// them, sequences over the data ranks; hidden values between ops and blocks are divided along the
// sequence with layout.sequence_parallel, else replicated. On a mesh of one rank nothing changes.
void shard(Graph& graph, const Layout& layout);
// Drops `share`, which only differentiate needs.
void remove_shares(Graph& graph);

// sum(x; bias) → gelu  becomes  gelu(x, bias): one sweep, and the bias gradient comes with it.
void fuse_bias_gelu(Graph& graph);

// The backward of every block from each op's gradient rule. A block that ends in a loss gets one
// list: its forward, then its backward, the loss and its gradient being one op.
void differentiate(Graph& graph);

// Moves what only the gradients of weights need from each layer's backward to a list of its own,
// which a pipeline may run later (zero_bubble).
void split_backward(Graph& graph);

// Clones of norms, attention, gates and the gathers and slices of their results in the backward, so
// that their outputs need not be saved. Without it gathered values are saved and no gather is
// repeated. `what`: all of these, or of the layers' computation attention alone (where it is
// materialised up to its weights, the result is kept), with what moves its operands and those of
// products.
void recompute_selective(Graph& graph, SelectiveKind what = SelectiveKind::kCheap);

// Layer GEMMs quantize their operands to FP8 if their local extents are multiples of 16, as tensor
// cores require. Blocks that end in a loss keep theirs.
void multiply_in_fp8(Graph& graph);

// sum → norm  becomes  norm with terms, which also gives the sum.
void fuse_residual_norm(Graph& graph);

// Ops whose outputs nobody reads.
void remove_dead_ops(Graph& graph);

}  // namespace tessera
