// Binding of dequantize_nf4: one launch for each part of the weight.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::DequantizeNf4Args args(const BoundOp& b, int64_t part, int64_t first) {
  const DequantizeNf4& a = b.op->as<DequantizeNf4>();
  const int out = a.shape.rank() - static_cast<int>(a.contract), dim = static_cast<int>(a.dim);
  kernels::DequantizeNf4Args x;
  x.codes = b.inputs[part];
  x.scales = b.inputs[a.parts + part];
  x.levels = b.inputs[2 * a.parts + part];
  x.w = b.out(DequantizeNf4::kWeight);
  const int64_t inner = x.w.shape.product(dim + 1, out);
  x.part = {x.w.shape.product(0, dim), x.w.shape[dim] * inner, first * inner,
            x.codes.shape[dim] * inner};
  // This rank's codes are whole rows of outputs, or blocks of all of them (check_quantization()).
  const ValueId codes = b.op->inputs[part];
  const GlobalBox box = b.extents(codes);
  const Shape& whole = b.values[codes].shape;
  for (int d = 0; d < out; ++d) x.first_row = x.first_row * whole[d] + box.begin[d];
  x.first_block = box.begin[out];
  x.row_blocks = whole[out];
  return x;
}

void run(const BoundOp& b) {
  const DequantizeNf4& a = b.op->as<DequantizeNf4>();
  for (int64_t part = 0, first = 0; part < a.parts; ++part) {
    b.run(args(b, part, first));
    first += b.inputs[part].shape[static_cast<int>(a.dim)];
  }
}

}  // namespace

template <>
const Binding& binding_for<DequantizeNf4>() {
  static constexpr Binding kBinding = {run};
  return kBinding;
}

}  // namespace tessera::runtime
