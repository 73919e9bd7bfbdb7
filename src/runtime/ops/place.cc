// Bindings of slice and pad: slice copies this rank's shard from a whole value; pad copies it into
// a whole value that is zero elsewhere.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// Rows of a shard [outer, held, inner] in a whole value [outer, of, inner]: row `local` of the
// shard is row `first` of the whole.
struct Window {
  int64_t outer, held, of, row_bytes;
  std::vector<TokenRange> rows;
};

Window window(const BoundOp& b, int d, ValueId whole, ValueId part) {
  const bool slices = b.op->is<Slice>();
  const Shape& all = (slices ? b.inputs : b.outputs)[0].shape;
  const GlobalBox p = b.extents(part), w = b.extents(whole);
  Window found = {all.product(0, d),
                  (slices ? b.outputs : b.inputs)[0].shape[d],
                  all[d],
                  all.product(d + 1, all.rank()) * size_of(b.inputs[0].dtype),
                  {{0, p.begin[d] - w.begin[d], p.end[d] - p.begin[d]}}};
  const Value& v = b.values[part];
  if (v.sharding.cut == ContextCut::kZigzag && over_of(b.op->attributes)->has(AxisKind::kContext))
    found.rows = token_ranges(v, b.position->mesh, p);
  return found;
}

std::byte* row(const TensorView& t, int64_t index, int64_t row_bytes) {
  return t.as<std::byte>() + index * row_bytes;
}

void run_slice(const BoundOp& b) {
  const TensorView &whole = b.inputs[0], &part = b.outputs[0];
  const auto d = static_cast<int>(b.op->as<Slice>().dim);
  const Window w = window(b, d, b.op->inputs[0], b.op->outputs[0]);
  b.run(kernels::ClearArgs{part});
  for (const TokenRange& r : w.rows)
    b.run(kernels::CopyRowsArgs{.to = row(part, r.local, w.row_bytes),
                                .to_pitch = w.held * w.row_bytes,
                                .from = row(whole, r.first, w.row_bytes),
                                .from_pitch = w.of * w.row_bytes,
                                .bytes = r.count * w.row_bytes,
                                .rows = w.outer});
}

void run_pad(const BoundOp& b) {
  const TensorView &part = b.inputs[0], &whole = b.outputs[0];
  const auto d = static_cast<int>(b.op->as<Pad>().dim);
  const Window w = window(b, d, b.op->outputs[0], b.op->inputs[0]);
  b.run(kernels::ClearArgs{whole});
  for (const TokenRange& r : w.rows)
    b.run(kernels::CopyRowsArgs{.to = row(whole, r.first, w.row_bytes),
                                .to_pitch = w.of * w.row_bytes,
                                .from = row(part, r.local, w.row_bytes),
                                .from_pitch = w.held * w.row_bytes,
                                .bytes = r.count * w.row_bytes,
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
