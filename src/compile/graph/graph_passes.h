// The passes that rewrite a graph, before any rank or schedule is known. passes.cc has their order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/layout.h"
#include "compile/optimizer.h"
#include "compile/request.h"
#include "ir/program.h"
#include "model/model_config.h"

namespace tessera::compile {

// Replaces attention by attention_scores, softmax, (dropout,) attention_mix. With `half` all of
// them have the dtype of activations. Runs before differentiate.
void materialize_attention(Graph& graph, bool half = false);
// Dropouts output their masks, which the backward then reads. Runs before shard.
void store_dropout_masks(Graph& graph);
// Makes experts output the gates and values of their inner units, which the backward then reads.
// Runs before shard, which cannot divide such ops over the expert axis.
void save_expert_pairs(Graph& graph);
// Removes router losses, which need labels.
void drop_router_losses(Graph& graph);
// Removes the capacity of experts: all pairs are computed. Runs before shard.
void drop_expert_capacity(Graph& graph);
// Removes multi-token prediction, which only training computes. Its weights stay in the program. A
// program that shares its state with training does so after shard, so that the weights have the
// same placements.
void drop_mtp(Graph& graph);
// Adds the z-loss and the label smoothing to linear_cross_entropy, and to the losses of multi-token
// prediction their weight. Runs before differentiate.
void add_loss_terms(Graph& graph, const LossPolicy& loss);
// Replaces linear_cross_entropy by matmul and cross_entropy on all logits at once. Runs before
// differentiate.
void unfuse_cross_entropy(Graph& graph);
// Replaces linear_cross_entropy by the loss of pairs of answers, with the inputs that it needs; a
// reward model gets a head of its own (model/weight_names.h). Runs before assign_optimizers.
void add_preference_loss(Graph& graph, const PreferenceTerms& terms);
// Makes the sums that preference_loss reads, [B, kAnswersPerRow, kAnswerColumns], the value
// `logits`, which the host reads. Runs after shard.
void keep_answer_sums(Graph& graph);
// Replaces linear_cross_entropy by matmul into a value `logits` that the host reads.
void keep_logits(Graph& graph);
// Replaces attention by cached_attention over a cache of `context` tokens per layer. The keys and
// values of an encoder's output become a cache, too. With `reuse_encoder_output` that cache is
// filled already, so neither it nor the encoder's output is computed.
void decode(Graph& graph, int64_t context, bool reuse_encoder_output);

// Adds the ops of adapters to each GEMM with a target weight and freezes the model's weights. Runs
// before shard. Throws Error for a target that is not the weight of a GEMM.
void add_adapters(Graph& graph, const AdapterPolicy& adapters, const model::ModelConfig& model);
// Marks the weights whose names match a pattern as not trained. Throws Error for a pattern that
// matches none.
void freeze(Graph& graph, const std::vector<std::string>& patterns);
// Sets Value::policy of every weight that matches a group: the first such group. Weights that an
// optimizer of matrices leaves to AdamW have adamw_of() that policy: vectors, and unless the policy
// sets all_matrices, adapters, routers, and what is not in a layer. Throws Error for a pattern that
// matches none.
void assign_optimizers(Graph& graph, const std::vector<OptimizerGroup>& groups,
                       const OptimizerPolicy& own = {});

// Measures the largest attention scores of each step, and marks the rows of the weights of queries
// and keys that Muon's update scales by them (Value::clips). Runs after assign_optimizers. Throws
// Error for queries and keys that other ops than GEMMs compute.
void clip_scores(Graph& graph, const CompileRequest& request);

// Sets dtypes: with bf16 and fp16, weights and activations are bf16 or f16; statistics, losses and
// weight gradients stay f32.
void apply_precision(Graph& graph, Precision precision);
// Returns the dtype of weights and activations.
DType type_of(Precision precision);
// Accumulates weight gradients in `type`: each op adds its f32 result and rounds once. Runs after
// differentiate and split_backward.
void narrow_gradients(Graph& graph, DType type);
// GEMMs for weight gradients, and the embedding's gradient, write a separate value in `type`, the
// dtype of weights, which is then added to the accumulated gradient. Runs after narrow_gradients.
void separate_accumulation(Graph& graph, DType type);
// Multiplies the gradients of the loss by the step's loss scale, so that f16 can hold them. Runs
// after differentiate.
void scale_loss(Graph& graph);

// Gives attention its keys and values as an operand of their own, so that ranks that divide a
// sequence divide the queries and gather the keys. With `ring` > 0 they divide both, and the keys
// of each of that number of ranks visit all others (rotate_keys). Runs before shard.
void gather_keys(Graph& graph, int64_t ring = 0);
// Replaces ring attention and its gradient by an op per visit and the messages between them, on an
// inner queue. Runs after differentiate and split_backward.
void rotate_keys(Graph& graph);
// Replaces linear_cross_entropy and cross_entropy by the ops of a vocabulary-parallel one. Part of
// shard.
void divide_cross_entropy(Graph& graph);
// Gives every value a placement by each op's rule, on each axis of graph.mesh separately, inserts
// conversions between placements, and sets the values' parts. Weights are divided where the model
// marks them, sequences over the data ranks. Hidden values between ops and blocks are divided along
// the sequence with layout.sequence_parallel, else replicated. On a mesh of one rank nothing
// changes.
void shard(Graph& graph, const Layout& layout);
// Drops `mark_shared`, which only differentiate needs.
void remove_mark_shared(Graph& graph);

// Fuses sum(x; bias) and gelu into gelu(x, bias): one pass over x. The bias gradient comes with it.
void fuse_bias_gelu(Graph& graph);

// Writes the backward of every block from each op's gradient rule. A block that ends in a loss gets
// one list: its forward, then its backward, with the loss and its gradient as one op.
void differentiate(Graph& graph);

// Moves ops that only the gradients of weights need from each layer's backward to a separate list,
// which a pipeline may run later (zero_bubble).
void split_backward(Graph& graph);

// Clones norms, attention, gates, and gathers and slices of their results into the backward, so
// that their outputs need not be saved. Without it gathered values are saved and no gather is
// repeated. With SelectiveRecompute::kCoreAttention only core attention is cloned (unfused
// attention up to its weights; its result is saved), with the ops that move its operands and those
// of GEMMs.
void recompute_selective(Graph& graph, SelectiveRecompute what = SelectiveRecompute::kCheap);

// Layer GEMMs quantize their operands to FP8 if their local extents are multiples of 16, as tensor
// cores require. Blocks that end in a loss keep theirs.
void multiply_in_fp8(Graph& graph);

// Fuses sum and norm into norm with terms, which also outputs the sum.
void fuse_residual_norm(Graph& graph);

// Removes ops whose outputs are not read.
void remove_dead_ops(Graph& graph);

// Stores the frozen weights of the layers' GEMMs in 4 bits (NF4): each part of such a weight
// becomes three weights, PART.nf4, PART.nf4_scales and PART.nf4_levels, and every list of ops that
// reads the weight computes it first. Value::of of the three is the value that they are computed
// from, which keeps the name, shape, parts and initial values of the weight. Runs after all passes
// that ask which values are weights.
void quantize_weights(Graph& graph);
// Returns the weights that it stores in 4 bits, with the GEMM of each: frozen weights of layers.
std::map<ValueId, Matmul> quantizable_weights(const Graph& graph);

// Moves the collectives over tensor ranks of each layer to the inner queue kTensor.
void assign_queues(Graph& graph);
// Moves the collectives over the ranks that divide the experts of each layer to the inner queue
// kExpert.
void assign_expert_queue(Graph& graph);
// Cuts the ops of layers with inner queues into at most that many chunks of sequences: the largest
// number that divides the sequences of a micro-batch. Ops that add over sequences, such as
// gradients of weights, stay whole, so every sum has the order that it had. Runs after
// assign_queues.
void chunk_layers(Graph& graph, int64_t chunks);
// Reorders the ops of layers with inner queues, so that the compute queue waits little. Ops that
// are in conflict keep their order, and so do rotations and the attention between them. Runs after
// chunk_layers.
void order_segments(Graph& graph);

}  // namespace tessera::compile
