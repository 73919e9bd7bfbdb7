// Writes the forward of one block. A model family is a function that uses these few verbs.
#pragma once

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/program.h"
#include "model/model_config.h"

namespace tessera {

// Values that every block may read. B sequences of T tokens.
struct BatchValues {
  ValueId tokens = kNone, labels = kNone, positions = kNone;  // [B, T] i32
  ValueId samples = kNone;                                    // [B] i64, global sample numbers
  ValueId step = kNone, report = kNone;                       // see ir/state.h
};

class BlockWriter {
 public:
  BlockWriter(Graph& graph, const BatchValues& batch, const ModelConfig& model,
              const std::string& name, int64_t layers);

  // A trained matrix or table, normal with `std`; a trained vector that starts at a constant.
  // `divided`: the dimension (vocabulary, heads, feed forward) that tensor ranks divide, which the
  // value's place on that axis says.
  ValueId matrix(const std::string& name, Shape shape, double std, int divided = kNone);
  ValueId vector(const std::string& name, Shape shape, double constant, int divided = kNone);

  ValueId stream();             // the hidden states that come in, [B, T, F]
  void finish(ValueId hidden);  // what goes out
  void finish_with_loss();      // the block ends in a loss

  ValueId norm(const std::string& name, ValueId x);
  ValueId rms_norm(const std::string& name, ValueId x);
  // x times a weight [out…, in…] over its last `contract` dimensions, no bias.
  ValueId product(const std::string& name, ValueId x, ValueId weight, int64_t contract = 1);
  // A product with weight and bias of its own: name.weight, name.bias. Tensor ranks divide the
  // first dimension of `out`.
  ValueId linear(const std::string& name, ValueId x, const Shape& out, double std);
  ValueId embedding(const std::string& name, ValueId ids, ValueId table);
  ValueId sum(const std::string& name, std::vector<ValueId> terms,
              std::vector<ValueId> biases = {});
  ValueId rotary(ValueId qkv);
  ValueId attention(ValueId qkv);
  ValueId gelu(const std::string& name, ValueId x);
  // Of pairs [.., inner, 2]; `form`: silu, or erf or tanh of gelu.
  ValueId gated_activation(const std::string& name, ValueId x, const std::string& form);
  ValueId dropout(const std::string& name, ValueId x);  // x itself where the model has none
  void linear_cross_entropy(ValueId x, ValueId weight);

  const ModelConfig& model() const { return model_; }
  double std_in() const;   // of matrices and embeddings
  double std_out() const;  // of matrices that write into the residual stream

 private:
  Graph& graph_;
  const BatchValues& batch_;
  const ModelConfig& model_;
  Block block_;
  Builder builder_;
};

// The whole forward of a model for micro-batches of B sequences of T tokens, in f32.
Graph forward(const ModelConfig& model, int64_t sequences, int64_t tokens);

}  // namespace tessera
