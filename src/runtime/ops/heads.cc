// Bindings of ops that repeat, join and split heads or pairs: strided copies of rows.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// A view of packed heads as rows: one row of `bytes` bytes per key/value head and token.
struct Rows {
  std::byte* data;
  int64_t bytes, count;
};

Rows rows_of(const TensorView& t) {
  const int64_t bytes = t.shape.product(3, t.shape.rank()) * size_of(t.dtype);
  return {t.as<std::byte>(), bytes, t.shape.product(0, 3)};
}

// Copies `bytes` bytes of each of `rows` rows.
void copy(const BoundOp& b, std::byte* to, int64_t to_pitch, const std::byte* from,
          int64_t from_pitch, int64_t bytes, int64_t rows) {
  b.run(kernels::CopyRowsArgs{.to = to,
                              .to_pitch = to_pitch,
                              .from = from,
                              .from_pitch = from_pitch,
                              .bytes = bytes,
                              .rows = rows});
}

void run_join_heads(const BoundOp& b) {
  const Rows q = rows_of(b.inputs[0]), pairs = rows_of(b.inputs[1]), out = rows_of(b.outputs[0]);
  copy(b, out.data, out.bytes, q.data, q.bytes, q.bytes, q.count);
  copy(b, out.data + q.bytes, out.bytes, pairs.data, pairs.bytes, pairs.bytes, q.count);
}

void run_split_heads(const BoundOp& b) {
  const Rows x = rows_of(b.inputs[0]), q = rows_of(b.outputs[0]), pairs = rows_of(b.outputs[1]);
  copy(b, q.data, q.bytes, x.data, x.bytes, q.bytes, q.count);
  copy(b, pairs.data, pairs.bytes, x.data + q.bytes, x.bytes, pairs.bytes, q.count);
}

// A pair is the two vectors of a token, one after the other.
void run_join_pair(const BoundOp& b) {
  const TensorView &first = b.inputs[0], &second = b.inputs[1];
  const int64_t bytes = first.shape[-1] * size_of(first.dtype), rows = first.shape.product(0, 2);
  auto* const out = b.outputs[0].as<std::byte>();
  copy(b, out, 2 * bytes, first.as<std::byte>(), bytes, bytes, rows);
  copy(b, out + bytes, 2 * bytes, second.as<std::byte>(), bytes, bytes, rows);
}

void run_split_pair(const BoundOp& b) {
  const TensorView& pair = b.inputs[0];
  const int64_t bytes = pair.shape[-1] * size_of(pair.dtype), rows = pair.shape.product(0, 2);
  const auto* const from = pair.as<std::byte>();
  copy(b, b.outputs[0].as<std::byte>(), bytes, from, 2 * bytes, bytes, rows);
  copy(b, b.outputs[1].as<std::byte>(), bytes, from + bytes, 2 * bytes, bytes, rows);
}

void run_repeat_heads(const BoundOp& b) {
  const Rows x = rows_of(b.inputs[0]), y = rows_of(b.outputs[0]);
  const int64_t copies = b.op->as<RepeatHeads>().copies;
  for (int64_t c = 0; c < copies; ++c)
    copy(b, y.data + c * x.bytes, copies * x.bytes, x.data, x.bytes, x.bytes, x.count);
}

// Adds the copies one after another, starting with the first. If a rank holds one head only, all
// copies except its own are zero.
void run_repeat_heads_grad(const BoundOp& b) {
  const Rows dy = rows_of(b.inputs[0]), dx = rows_of(b.outputs[0]);
  const int64_t copies = b.op->as<RepeatHeadsGrad>().copies;
  const TensorView sum = as_rows(b.outputs[0], b.outputs[0].shape[-1]);
  const TensorView term = {b.launch.workspace, sum.dtype, sum.shape};
  for (int64_t c = 0; c < copies; ++c) {
    copy(b, c == 0 ? dx.data : b.launch.room<std::byte>(), dx.bytes, dy.data + c * dx.bytes,
         copies * dx.bytes, dx.bytes, dx.count);
    if (c > 0) b.run(kernels::SumArgs{{sum, term}, {}, sum});
  }
}

// Returns the bytes of one copy.
int64_t repeat_heads_grad_workspace(const BoundOp& b) { return b.outputs[0].bytes(); }

}  // namespace

template <>
const Binding& binding_for<RepeatHeads>() {
  static constexpr Binding kBinding = {run_repeat_heads};
  return kBinding;
}
template <>
const Binding& binding_for<RepeatHeadsGrad>() {
  static constexpr Binding kBinding = {run_repeat_heads_grad, repeat_heads_grad_workspace};
  return kBinding;
}
template <>
const Binding& binding_for<JoinHeads>() {
  static constexpr Binding kBinding = {run_join_heads};
  return kBinding;
}
template <>
const Binding& binding_for<SplitHeads>() {
  static constexpr Binding kBinding = {run_split_heads};
  return kBinding;
}
template <>
const Binding& binding_for<JoinPair>() {
  static constexpr Binding kBinding = {run_join_pair};
  return kBinding;
}
template <>
const Binding& binding_for<SplitPair>() {
  static constexpr Binding kBinding = {run_split_pair};
  return kBinding;
}

}  // namespace tessera::runtime
