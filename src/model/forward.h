// Writes the forward of one block. A model family is a function that uses these few verbs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/program.h"
#include "model/model_config.h"

namespace tessera::model {

// Values that every block may read. B sequences of T tokens.
struct BatchValues {
  ValueId tokens = kNone, labels = kNone, positions = kNone;  // [B, T] i32
  ValueId samples = kNone;                                    // [B] i64, global sample numbers
  ValueId step = kNone, report = kNone;                       // see ir/state.h
  ValueId documents = kNone;  // [B, T] i32, where attention is to stay within a document
  ValueId source = kNone;     // [B, S] i32, the encoder's input; id 0 is padding
  // Per depth d = 1 … of multi-token prediction, [B, T] i32: at position t the token and the label
  // of position t + d.
  std::vector<ValueId> mtp_tokens, mtp_labels;
  int64_t head_copies = 1;  // see BatchForm
};

// Variants of attention; the default is causal self-attention on packed queries, keys and values.
struct AttentionForm {
  double scale = 1;
  int64_t value_width = 0;  // 0: the width of keys
  int64_t window = 0;
  double soft_cap = 0;
  ValueId separate_kv = kNone;  // keys and values [B, S, H, 2, D]; kNone: packed with the queries
  bool non_causal = false;      // not causal: also attends to later keys
  ValueId bias = kNone;         // [H, N] by distance
  ValueId sinks = kNone;        // [H]
  ValueId padding = kNone;      // [B, S] ids of the keys, where 0 is padding
};

// B sequences of T tokens (decoder) and S tokens (encoder).
struct BatchForm {
  int64_t sequences = 1, tokens = 1, source = 0;
  bool intra_document_masking = false;
  int64_t head_copies = 1;  // replicas of every KV head of GQA: BlockWriter::grouped_heads
};

// How an RMS norm stores its gains: as they are, or minus 1 (they start at 0).
enum class GainForm : uint8_t { kPlain, kLessOne };

// The stack of all layers, except in T5.
inline constexpr const char* kLayerStack = "layer";

// Layers of a stack that are configured alike, so one block.
struct LayerKind {
  std::string block;        // its unique name: "layer", "layer_nope", "layer_wide", …
  std::vector<int64_t> at;  // its layer numbers, ascending; empty: not a layer of a stack
  bool rotary = true;
  int64_t feed_forward = 0;  // inner width of the MLP or of each expert
  bool experts = false;
  int64_t window = 0;               // keys that a query sees; 0: all
  double rope_theta = 0;            // 0: the base and scaling of the model
  std::string stack = kLayerStack;  // prefix of the names of values
  bool in_head = false;             // a module of multi-token prediction, not a layer of a stack
};

// Returns the number of dimensions of a head that RoPE rotates.
int64_t rotated_dims(const ModelConfig& model);
// The factor of attention scores.
double attention_scale(const ModelConfig& model);
// Standard deviations of initial weights: of matrices and embeddings, and of matrices that write to
// the residual stream.
double std_in(const ModelConfig& model);
double std_out(const ModelConfig& model);

// Returns the kinds of the stack "layer", in the order of their first layers.
std::vector<LayerKind> layer_kinds(const ModelConfig& model);
// The layer of the multi-token prediction at a depth, from 1: a copy of the model's last layer that
// is part of the head. Its stack is "mtp0" at depth 1, as published files count.
LayerKind mtp_layer(const ModelConfig& model, int64_t depth);

class BlockWriter {
 public:
  // `layers`: of a stack, each with weights of its own; kNone: a block that exists once.
  BlockWriter(Graph& graph, const BatchValues& batch, const ModelConfig& model,
              const std::string& name, int64_t layers = kNone);
  // Some of the layers of a stack. Values are named after the stack, so weights, dropout masks and
  // adapters of a layer do not depend on its kind.
  BlockWriter(Graph& graph, const BatchValues& batch, const ModelConfig& model, LayerKind kind);

  // After this call, names and weights belong to this layer, which is part of the block.
  void enter(const LayerKind& layer);

  // A trained matrix or table, normal with `std`; a trained vector that starts at a constant.
  // `divided`: the dimension (vocabulary, heads, feed forward) that is sharded over tensor ranks;
  // it becomes the value's sharding on that axis.
  ValueId matrix(const std::string& name, Shape shape, double std, int divided = kNone);
  // Vectors have no weight decay. `std`: normal around the constant.
  ValueId vector(const std::string& name, Shape shape, double constant, int divided = kNone,
                 double std = 0);
  // Names the parts of a packed weight, each with its number of consecutive indices of dimension
  // `dim`. They are the tensors that the published model keeps separately.
  void name_parts(ValueId weight, int64_t dim,
                  const std::vector<std::pair<const char*, int64_t>>& parts);

  // The hidden states that come in, [B, T, F], and those that go out; those of an encoder
  // are [B, S, F].
  ValueId stream(HiddenStream from = HiddenStream::kHidden);
  void finish(ValueId hidden, HiddenStream to = HiddenStream::kHidden);
  void remember(ValueId memory);  // output that later layers read (Graph::encoder_output)
  void finish_with_loss();        // the block ends in a loss

  ValueId norm(const std::string& name, ValueId x);
  ValueId rms_norm(const std::string& name, ValueId x, GainForm form = GainForm::kPlain);
  // The GEMM of x and a weight [out…, in…] over its last `contract` dimensions, without bias.
  ValueId product(const std::string& name, ValueId x, ValueId weight, int64_t contract = 1);
  // A GEMM with its own weight and bias: name.weight, name.bias. The first dimension of `out` is
  // sharded over tensor ranks.
  ValueId linear(const std::string& name, ValueId x, const Shape& out, double std);
  ValueId embedding(const std::string& name, ValueId ids, ValueId table);
  // One vector per token, [B, T, 2, F], of two, for a GEMM over both dimensions.
  ValueId pair(const std::string& name, ValueId first, ValueId second);
  ValueId sum(const std::string& name, std::vector<ValueId> terms,
              std::vector<ValueId> biases = {});
  ValueId rotary(ValueId qkv);  // returns qkv in layers without RoPE
  ValueId attention(const std::string& name, ValueId queries, const AttentionForm& form);
  // `rounded`: the factor is rounded to the type of x first.
  ValueId scale(const std::string& name, ValueId x, double factor, bool rounded = false);
  ValueId gelu(const std::string& name, ValueId x);
  // x: pairs [.., inner, 2]. `form`: silu, or gelu as erf or tanh.
  ValueId gated_activation(const std::string& name, ValueId x, GateForm form);
  // Dropout with the model's probability, or with the given one. Returns x if the probability
  // is 0.
  ValueId dropout(const std::string& name, ValueId x, std::optional<double> probability = {});
  // For functions that write several ops (model/layer_parts.h).
  Builder& builder() { return builder_; }
  const ModelConfig& model() const { return model_; }
  const BatchValues& batch() const { return batch_; }
  const LayerKind& kind() const { return kind_; }

 private:
  Graph& graph_;
  const BatchValues& batch_;
  const ModelConfig& model_;
  LayerKind kind_;
  Block block_;
  Builder builder_;
};

// The whole forward of a model for micro-batches of that form, in f32.
Graph forward(const ModelConfig& model, const BatchForm& form);
inline Graph forward(const ModelConfig& model, int64_t sequences, int64_t tokens) {
  return forward(model, {sequences, tokens, model.encoder_layers > 0 ? tokens : 0});
}

}  // namespace tessera::model
