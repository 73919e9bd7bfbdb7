// Bindings of embedding lookup and of its gradient.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// Returns the rows of the table that this rank holds.
kernels::TableRows table_rows(const BoundOp& b, ValueId table) {
  return {b.extents(table).begin[0], b.values[table].shape[0]};
}

kernels::EmbeddingArgs args(const BoundOp& b) {
  const TensorView table = b.in(Embedding::kTable);
  return {flat(b.in(Embedding::kIds)), table, as_rows(b.out(Embedding::kY), table.shape[1]),
          table_rows(b, b.op->inputs[Embedding::kTable])};
}

kernels::EmbeddingGradArgs grad_args(const BoundOp& b) {
  const TensorView d_table = b.out(EmbeddingGrad::kDTable);
  return {flat(b.in(EmbeddingGrad::kIds)), as_rows(b.in(EmbeddingGrad::kDy), d_table.shape[1]),
          d_table, table_rows(b, b.op->outputs[EmbeddingGrad::kDTable])};
}

void run_grad(const BoundOp& b) {
  b.clear_if_fresh(EmbeddingGrad::kDTable);
  b.run(grad_args(b));
}

}  // namespace

template <>
const Binding& binding_for<Embedding>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<EmbeddingGrad>() {
  static constexpr Binding kBinding = {run_grad, workspace_of<grad_args>};
  return kBinding;
}

}  // namespace tessera::runtime
