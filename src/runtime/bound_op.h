// An op with its operands bound to memory, and the kernels' side of each op kind.
#pragma once

#include <array>

#include "ir/mesh.h"
#include "ir/op.h"
#include "kernels/dropout.h"
#include "runtime/library.h"
#include "tensor/tensor.h"

namespace tessera {

constexpr size_t kMaxInputs = 8, kMaxOutputs = 4;

// The ranks of the run, and which of them this is.
struct Position {
  Mesh mesh;
  Coordinates at;
};

struct BoundOp {
  const Op* op = nullptr;
  const Position* position = nullptr;
  std::span<const Value> values;  // of the program, for the boxes of operands (extents_of)
  std::array<TensorView, kMaxInputs> in;
  std::array<TensorView, kMaxOutputs> out;
  std::array<bool, kMaxOutputs> fresh{};  // this output is added to for the first time
  void* workspace = nullptr;
  void* packed = nullptr;  // of a product: the packed weight
  const kernels::Matmul* product = nullptr;
  const kernels::Matmul* fresh_product = nullptr;  // the same, writing instead of adding
  const kernels::LinearCrossEntropy* head = nullptr;
  int64_t layer = 0;
  int threads = 1;
};

using RunOp = void (*)(const BoundOp&);

// What runs an op of that kind on the CPU.
RunOp run_op(OpKind kind);

// [rows, columns] of a dense tensor whose last dimensions have `columns` elements in all.
TensorView as_rows(const TensorView& t, int64_t columns);
TensorView flat(const TensorView& t);

// The kernels' bindings, by theme, each in its own file.
void run_norm(const BoundOp& b);
void run_norm_grad(const BoundOp& b);
void run_gelu(const BoundOp& b);
void run_gelu_grad(const BoundOp& b);
void run_gated_activation(const BoundOp& b);
void run_gated_activation_grad(const BoundOp& b);
void run_sum(const BoundOp& b);
void run_bias_grad(const BoundOp& b);
void run_dropout(const BoundOp& b);
void run_cast(const BoundOp& b);
void run_embedding(const BoundOp& b);
void run_embedding_grad(const BoundOp& b);
void run_matmul(const BoundOp& b);
void run_matmul_grad_weight(const BoundOp& b);
void run_cross_entropy(const BoundOp& b);
void run_linear_cross_entropy(const BoundOp& b);
void run_rotary(const BoundOp& b);
void run_attention(const BoundOp& b);
void run_attention_grad(const BoundOp& b);
void run_cached_attention(const BoundOp& b);
void run_attention_scores(const BoundOp& b);
void run_attention_scores_grad(const BoundOp& b);
void run_softmax(const BoundOp& b);
void run_softmax_grad(const BoundOp& b);
void run_attention_mix(const BoundOp& b);
void run_attention_mix_grad(const BoundOp& b);
void run_clear(const BoundOp& b);
void run_pack(const BoundOp& b);
void run_squares(const BoundOp& b);
void run_clip(const BoundOp& b);
void run_adamw(const BoundOp& b);
void run_slice(const BoundOp& b);
void run_pad(const BoundOp& b);
void run_communication(const BoundOp& b);  // of an op inside a segment: starts it and waits

// The key of a dropout mask: (seed, step, the op's key, layer).
uint64_t dropout_key(const BoundOp& b, const TensorView& step);

}  // namespace tessera
