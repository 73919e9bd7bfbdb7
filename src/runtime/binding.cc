// The table of bindings, indexed by the kind of op, and functions that bindings share: the box of a
// value on this rank, copies and clears of operands.
#include "runtime/binding.h"

#include <array>

namespace tessera::runtime {
namespace {

// The optimizers that update a weight in one pass share one binding.
template <class A>
const Binding& binding_in_table() {
  if constexpr (requires { A::kOptimizer; })
    return one_pass_binding();
  else
    return binding_for<A>();
}

template <class... Ts>
const Binding& find(OpKind kind, TypeList<Ts...>) {
  static const std::array<const Binding*, sizeof...(Ts)> kAll = {&binding_in_table<Ts>()...};
  return *kAll[static_cast<size_t>(kind)];
}

}  // namespace

const Binding& binding_of(OpKind kind) { return find(kind, OpTypes()); }

GlobalBox BoundOp::extents(ValueId v) const {
  if (position) return global_box_of(values[v], position->mesh, position->at);
  const std::vector<int64_t>& all = values[v].shape.dims();
  return {std::vector<int64_t>(all.size(), 0), all};
}

void BoundOp::copy_unless_shared(const TensorView& from, const TensorView& to) const {
  if (from.data != to.data) run(kernels::CopyArgs{from, to});
}

void BoundOp::clear_if_fresh(size_t output) const {
  if (fresh[output]) run(kernels::ClearArgs{outputs[output]});
}

BoundOp bound_to_shapes(const Op& op, ValueSpan local_values) {
  BoundOp b;
  b.op = &op;
  b.values = local_values;
  const auto view = [&](ValueId v) {
    return TensorView{nullptr, local_values[v].dtype, local_values[v].shape};
  };
  for (const ValueId v : op.inputs) b.inputs.push_back(view(v));
  for (const ValueId v : op.outputs) b.outputs.push_back(view(v));
  b.fresh.resize(op.outputs.size());
  return b;
}

TensorView as_rows(const TensorView& t, int64_t columns) {
  return {t.data, t.dtype, {t.elements() / columns, columns}};
}

namespace {

TensorView with_sequences(const TensorView& t, int64_t n, int64_t moved_bytes) {
  std::vector<int64_t> dims = t.shape.dims();
  dims.at(0) = n;
  return {t.as<std::byte>() + moved_bytes, t.dtype, Shape(dims)};
}

}  // namespace

TensorView chunk_of(const TensorView& whole, const Chunk& c) {
  const int64_t n = whole.shape[0] / c.count, elements = whole.elements() / c.count;
  return with_sequences(whole, n, c.index * elements * size_of(whole.dtype));
}

TensorView whole_of(const TensorView& part, const Chunk& c) {
  return with_sequences(part, part.shape[0] * c.count,
                        -c.index * part.elements() * size_of(part.dtype));
}

TensorView flat(const TensorView& t) { return {t.data, t.dtype, {t.elements()}}; }

}  // namespace tessera::runtime
