#include "runtime/bound_op.h"

namespace tessera {

Extents BoundOp::extents(ValueId v) const {
  if (position) return extents_of(values[v], position->mesh, position->at);
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

TensorView flat(const TensorView& t) { return {t.data, t.dtype, {t.elements()}}; }

}  // namespace tessera
