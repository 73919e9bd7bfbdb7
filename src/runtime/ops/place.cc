// Bindings of slice and pad: slice copies this rank's shard from a whole value; pad copies it into
// a whole value that is zero elsewhere.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// A shard [outer, n, inner] within a whole value [outer, of, inner], starting at `first`.
struct Window {
  int64_t outer, first, n, of, row_bytes;
};

Window window(const BoundOp& b, int d, ValueId whole, ValueId part, const TensorView& all) {
  const GlobalBox p = b.extents(part), w = b.extents(whole);
  return {all.shape.product(0, d), p.begin[d] - w.begin[d], p.end[d] - p.begin[d], all.shape[d],
          all.shape.product(d + 1, all.shape.rank()) * size_of(all.dtype)};
}

std::byte* row(const TensorView& t, int64_t index, int64_t row_bytes) {
  return t.as<std::byte>() + index * row_bytes;
}

void run_slice(const BoundOp& b) {
  const TensorView &whole = b.inputs[0], &part = b.outputs[0];
  const auto d = static_cast<int>(b.op->as<Slice>().dim);
  const Window w = window(b, d, b.op->inputs[0], b.op->outputs[0], whole);
  const int64_t held = part.shape[d];
  b.run(kernels::ClearArgs{part});
  b.run(kernels::CopyRowsArgs{.to = part.data,
                              .to_pitch = held * w.row_bytes,
                              .from = row(whole, w.first, w.row_bytes),
                              .from_pitch = w.of * w.row_bytes,
                              .bytes = w.n * w.row_bytes,
                              .rows = w.outer});
}

void run_pad(const BoundOp& b) {
  const TensorView &part = b.inputs[0], &whole = b.outputs[0];
  const auto d = static_cast<int>(b.op->as<Pad>().dim);
  const Window w = window(b, d, b.op->outputs[0], b.op->inputs[0], whole);
  const int64_t held = part.shape[d];
  b.run(kernels::ClearArgs{whole});
  b.run(kernels::CopyRowsArgs{.to = row(whole, w.first, w.row_bytes),
                              .to_pitch = w.of * w.row_bytes,
                              .from = part.data,
                              .from_pitch = held * w.row_bytes,
                              .bytes = w.n * w.row_bytes,
                              .rows = w.outer});
}

}  // namespace

template <>
const Binding& binding_for<Slice>() {
  static constexpr Binding kBinding = {run_slice};
  return kBinding;
}
template <>
const Binding& binding_for<Pad>() {
  static constexpr Binding kBinding = {run_pad};
  return kBinding;
}

}  // namespace tessera::runtime
