// An op with its operands bound to memory, and the kernels' side of each op kind.
#pragma once

#include <array>

#include "comm/communicator.h"
#include "ir/mesh.h"
#include "ir/operands.h"
#include "ir/state/member_ranges.h"
#include "runtime/channels.h"
#include "runtime/library.h"
#include "tensor/tensor.h"

namespace tessera {

constexpr size_t kMaxInputs = 10, kMaxOutputs = 4;

// A stretch of a member of a flat value whose elements follow each other in the global weight too.
struct MemberStretch {
  size_t member = 0;
  int64_t first = 0, elements = 0;  // of the flat value
  int64_t global = 0;               // the weight's element that `first` is
  // Set by part_stretches(): the index of the part's FactorPlace, and the element of the part.
  size_t place = 0;
  int64_t element = 0;
};
// Of all members, by rising place. Padding is in none.
std::vector<MemberStretch> member_stretches(const Program& program,
                                            std::span<const MemberRange> members,
                                            const Coordinates& at);

// Returns the same ranges, split at the bounds of parts of packed weights (Value::parts).
std::vector<MemberStretch> part_stretches(const Program& program, FrameKindId table,
                                          std::span<const MemberRange> members,
                                          std::span<const MemberStretch> stretches);

struct BoundOp {
  const Op* op = nullptr;
  const Position* position = nullptr;
  // Of squares and updates: what of the flat operand is which weight's, and where in it.
  std::span<const MemberRange> members;
  std::span<const MemberStretch> stretches;
  std::span<const FactorPlace> factors;  // of adafactor, by MemberStretch::place
  ValueSpan values;                      // of the program, for the boxes of operands (extents_of)
  std::array<TensorView, kMaxInputs> in;
  std::array<TensorView, kMaxOutputs> out;
  std::array<bool, kMaxOutputs> fresh{};  // this output is added to for the first time
  void* workspace = nullptr;
  void* packed = nullptr;  // of a product: the packed weight
  const Product* product = nullptr;
  const Product* fresh_product = nullptr;  // the same, writing instead of adding
  const Head* head = nullptr;
  const kernels::GpuAttention* attention = nullptr;  // where it is prepared; or the table's
  const kernels::Kernels* kernels = &kernels::cpu_kernels();
  Stream stream;                      // where they run; the CPU has none
  const double* host_step = nullptr;  // value `step` for the host, where operands are a device's
  Communicator* channel = nullptr;    // of an op that communicates
  int64_t peer = 0;                   // of a message: its place in the channel
  int64_t layer = 0;
  int threads = 1;
};

using RunOp = void (*)(const BoundOp&);

// What runs an op of that kind; nullptr if it communicates or has nothing to do.
RunOp run_op(OpKind kind);

// For kernels that work in place where the compiler could not let input and output share bytes.
void copy_unless_shared(const BoundOp& b, const TensorView& from, const TensorView& to);
// [rows, columns] of a dense tensor whose last dimensions have `columns` elements in all.
TensorView as_rows(const TensorView& t, int64_t columns);
TensorView flat(const TensorView& t);
// Elements [first, last) of a flat view.
inline TensorView part(const TensorView& t, int64_t first, int64_t last) {
  return {t.as<std::byte>() + first * size_of(t.dtype), t.dtype, {last - first}};
}

// An operand by its slot; empty where the op has none.
template <OperandSlot Slot>
TensorView operand(const BoundOp& b, Slot slot) {
  const int place = place_of(*b.op, slot);
  if (place < 0) return {};
  if constexpr (InputSlot<Slot>)
    return b.in[static_cast<size_t>(place)];
  else
    return b.out[static_cast<size_t>(place)];
}

// The box of the global value that this rank's operand holds.
Extents extents(const BoundOp& b, ValueId v);
// Where a loss is added: to the report, or nowhere (nullptr) if another rank, which has the same
// labels, adds the same.
double* loss_sum(const BoundOp& b, ValueId labels);

// The kernels' bindings, by theme, each in its own file.
void run_norm(const BoundOp& b);
void run_norm_grad(const BoundOp& b);
void run_rms_norm(const BoundOp& b);
void run_rms_norm_grad(const BoundOp& b);
void run_gelu(const BoundOp& b);
void run_gelu_grad(const BoundOp& b);
void run_gated_activation(const BoundOp& b);
void run_gated_activation_grad(const BoundOp& b);
void run_sum(const BoundOp& b);
void run_scale(const BoundOp& b);
void run_accumulate(const BoundOp& b);
void run_bias_grad(const BoundOp& b);
void run_dropout(const BoundOp& b);
void run_dropout_grad(const BoundOp& b);
void run_cast(const BoundOp& b);
void run_copy(const BoundOp& b);
void run_embedding(const BoundOp& b);
void run_embedding_grad(const BoundOp& b);
void run_matmul(const BoundOp& b);
void run_matmul_grad_weight(const BoundOp& b);
void run_cross_entropy(const BoundOp& b);
void run_linear_cross_entropy(const BoundOp& b);
void run_logits_max(const BoundOp& b);
void run_logits_sums(const BoundOp& b);
void run_divided_cross_entropy(const BoundOp& b);
void run_rotary(const BoundOp& b);
void run_repeat_heads(const BoundOp& b);
void run_repeat_heads_grad(const BoundOp& b);
void run_join_heads(const BoundOp& b);
void run_join_heads_grad(const BoundOp& b);
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
void run_lion(const BoundOp& b);
void run_sgd(const BoundOp& b);
void run_adafactor_sums(const BoundOp& b);
void run_adafactor_squares(const BoundOp& b);
void run_adafactor(const BoundOp& b);
void run_slice(const BoundOp& b);
void run_pad(const BoundOp& b);

// Of an op that communicates: begins its transfer in b.channel, and what is to be done when that is
// over. `dim` and the shapes are those of ir/ops/communicate.cc. Where the parts of a collective do
// not lie one behind the other in the whole, they go through the workspace.
Ticket start_communication(const BoundOp& b);
void finish_communication(const BoundOp& b);
int64_t communication_workspace_bytes(const Op& op, ValueSpan local_values);

// The scales of all rows and columns of a group.
int64_t adafactor_workspace_bytes(const Op& op, ValueSpan local_values);

// The mask of (seed, step, key, layer).
kernels::Dropout dropout_of(const BoundOp& b, double probability, int64_t key,
                            const TensorView& step);

}  // namespace tessera
