// Ops that work on rows: norms, activations, sums, embeddings.
#include "base/error.h"
#include "ir/state.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

kernels::GeluKind gelu_kind(GeluForm form) {
  return form == GeluForm::kErf ? kernels::GeluKind::kErf : kernels::GeluKind::kTanh;
}

kernels::GateKind gate_kind(GateForm form) {
  if (form == GateForm::kSilu) return kernels::GateKind::kSilu;
  return form == GateForm::kErf ? kernels::GateKind::kErf : kernels::GateKind::kTanh;
}

// Kernels add to vectors; a fresh one starts from zero.
const TensorView& zeroed(const BoundOp& b, size_t output) {
  if (b.fresh[output]) b.kernels->clear(b.stream, b.out[output]);
  return b.out[output];
}

// Terms first, then biases.
struct Summands {
  std::array<TensorView, 4> terms, biases;
  size_t term_count = 0, bias_count = 0;
};

Summands summands(const BoundOp& b, size_t terms, size_t biases) {
  Summands s;
  s.term_count = terms;
  s.bias_count = biases;
  CHECK(terms <= 4 && biases <= 4, "a sum of {} terms and {} biases", terms, biases);
  const int64_t columns = biases > 0 ? b.in[terms].elements() : b.in[0].shape[-1];
  for (size_t i = 0; i < terms; ++i) s.terms[i] = as_rows(b.in[i], columns);
  for (size_t i = 0; i < biases; ++i) s.biases[i] = flat(b.in[terms + i]);
  return s;
}

}  // namespace

TensorView as_rows(const TensorView& t, int64_t columns) {
  return {t.data, t.dtype, {t.elements() / columns, columns}};
}

TensorView flat(const TensorView& t) { return {t.data, t.dtype, {t.elements()}}; }

namespace {

// Either norm, which A is.
template <class A>
void run_either_norm(const BoundOp& b, kernels::NormKind kind, const TensorView& bias) {
  const A& a = b.op->as<A>();
  const auto terms = static_cast<size_t>(a.terms), biases = static_cast<size_t>(a.biases);
  const int64_t d = b.in[0].shape[-1];
  const kernels::NormOutput output = {operand(b, A::kGain), bias, as_rows(b.out[0], d)};
  kernels::Norm n;
  n.kind = kind;
  n.epsilon = static_cast<float>(a.epsilon);
  n.outputs = {&output, 1};
  n.stats = as_rows(b.out[1], 2);
  if (!a.sums()) return b.kernels->norm(b.stream, as_rows(b.in[0], d), n);
  const Summands s = summands(b, terms, biases);
  b.kernels->sum_norm(b.stream, {s.terms.data(), terms}, {s.biases.data(), biases},
                      as_rows(b.out[2], d), n);
}

void run_either_norm_grad(const BoundOp& b, kernels::NormKind kind, bool add) {
  const int64_t d = b.in[0].shape[-1];
  kernels::NormGrad a;
  a.kind = kind;
  a.x = as_rows(b.in[0], d);
  a.stats = as_rows(b.in[1], 2);
  a.gain = b.in[2];
  a.dy = as_rows(b.in[3], d);
  a.dx = as_rows(b.out[0], d);
  a.accumulate_dx = add;
  if (a.accumulate_dx && b.in[4].data != a.dx.data)
    b.kernels->cast(b.stream, flat(b.in[4]), flat(a.dx));
  a.dgain = zeroed(b, 1);
  if (a.kind == kernels::NormKind::kLayer) a.dbias = zeroed(b, 2);
  b.kernels->norm_grad(b.stream, a, b.workspace);
}

}  // namespace

void run_norm(const BoundOp& b) {
  run_either_norm<Norm>(b, kernels::NormKind::kLayer, operand(b, Norm::kBias));
}
void run_rms_norm(const BoundOp& b) { run_either_norm<RmsNorm>(b, kernels::NormKind::kRms, {}); }
void run_norm_grad(const BoundOp& b) {
  run_either_norm_grad(b, kernels::NormKind::kLayer, b.op->as<NormGrad>().add);
}
void run_rms_norm_grad(const BoundOp& b) {
  run_either_norm_grad(b, kernels::NormKind::kRms, b.op->as<RmsNormGrad>().add);
}

void run_gelu(const BoundOp& b) {
  const Gelu& of = b.op->as<Gelu>();
  const bool bias = of.bias;
  const int64_t d = bias ? b.in[1].elements() : b.in[0].shape[-1];
  b.kernels->gelu(b.stream, gelu_kind(of.form), as_rows(b.in[0], d),
                  bias ? flat(b.in[1]) : TensorView(), as_rows(b.out[0], d));
}

void run_gelu_grad(const BoundOp& b) {
  const Gelu& of = b.op->as<GeluGrad>().of;
  const bool bias = of.bias;
  const int64_t d = bias ? b.in[1].elements() : b.in[0].shape[-1];
  kernels::GeluGrad a;
  a.kind = gelu_kind(of.form);
  a.x = as_rows(b.in[0], d);
  a.dy = as_rows(operand(b, GeluGrad::kDy), d);
  a.dx = as_rows(b.out[0], d);
  if (bias) {
    a.bias = flat(b.in[1]);
    a.dbias = flat(zeroed(b, 1));
  }
  b.kernels->gelu_grad(b.stream, a, b.workspace);
}

void run_gated_activation(const BoundOp& b) {
  const GateForm form = b.op->as<GatedActivation>().form;
  b.kernels->gated_activation(b.stream, gate_kind(form), b.in[0], b.out[0]);
}

void run_gated_activation_grad(const BoundOp& b) {
  const GateForm form = b.op->as<GatedActivationGrad>().form;
  b.kernels->gated_activation_grad(b.stream, {gate_kind(form), b.in[0], b.in[1], b.out[0]});
}

void run_sum(const BoundOp& b) {
  const auto terms = static_cast<size_t>(b.op->as<Sum>().terms);
  const Summands s = summands(b, terms, b.op->inputs.size() - terms);
  const TensorView out = as_rows(b.out[0], s.terms[0].shape[1]);
  b.kernels->sum(b.stream, {s.terms.data(), terms}, {s.biases.data(), s.bias_count}, out);
}

void run_scale(const BoundOp& b) {
  b.kernels->scale(b.stream, flat(b.in[0]), static_cast<float>(b.op->as<Scale>().factor),
                   flat(b.out[0]));
}

void run_accumulate(const BoundOp& b) {
  const int64_t columns = b.in[0].shape[-1];
  const TensorView sum = as_rows(b.out[0], columns);
  if (b.fresh[0]) return b.kernels->cast(b.stream, flat(b.in[0]), flat(b.out[0]));
  const std::array terms = {sum, as_rows(b.in[0], columns)};
  b.kernels->sum(b.stream, terms, {}, sum);
}

void run_bias_grad(const BoundOp& b) {
  const int64_t d = b.out[0].elements();
  for (size_t i = 0; i < b.op->outputs.size(); ++i)
    b.kernels->bias_grad(b.stream, as_rows(b.in[0], d), flat(zeroed(b, i)), b.workspace);
}

kernels::Dropout dropout_of(const BoundOp& b, double probability, int64_t key,
                            const TensorView& step) {
  const auto* s = step.as<double>();
  return {static_cast<float>(probability), static_cast<uint64_t>(key), s + kSeed, s + kStepNumber,
          b.layer};
}

void run_dropout(const BoundOp& b) {
  const Dropout& a = b.op->as<Dropout>();
  const kernels::Dropout d = dropout_of(b, a.p, a.key, b.in[2]);
  const ValueId x = b.op->inputs[0];
  const Shape &s = b.in[0].shape, &whole = b.values[x].shape;
  const Shape rows{s[0], s.product(1, s.rank() - 1), s[-1]};
  const Extents e = extents(b, x);
  kernels::DropoutWindow window;
  window.first_row = s.rank() > 2 ? e.begin[1] * s.product(2, s.rank() - 1) : 0;
  window.first_column = e.begin.back();
  window.width = (whole[-1] + 3) / 4 * 4;  // as fused attention counts: rows begin at whole blocks
  b.kernels->dropout(b.stream, {b.in[0].data, b.in[0].dtype, rows}, b.in[1], d,
                     {b.out[0].data, b.out[0].dtype, rows}, window, operand(b, Dropout::kMask));
}

void run_dropout_grad(const BoundOp& b) {
  b.kernels->dropout_grad(b.stream, b.in[0], b.in[1], static_cast<float>(b.op->as<DropoutGrad>().p),
                          b.out[0]);
}

void run_cast(const BoundOp& b) { b.kernels->cast(b.stream, flat(b.in[0]), flat(b.out[0])); }

void run_copy(const BoundOp& b) { b.kernels->copy(b.stream, b.in[0], b.out[0]); }

// The rows of the table that this rank holds.
kernels::TableRows table_rows(const BoundOp& b, ValueId table) {
  return {extents(b, table).begin[0], b.values[table].shape[0]};
}

void run_embedding(const BoundOp& b) {
  b.kernels->embedding(b.stream, flat(b.in[0]), b.in[1], as_rows(b.out[0], b.in[1].shape[1]),
                       table_rows(b, b.op->inputs[1]));
}

void run_embedding_grad(const BoundOp& b) {
  b.kernels->embedding_grad(b.stream, flat(b.in[0]), as_rows(b.in[1], b.out[0].shape[1]),
                            zeroed(b, 0), table_rows(b, b.op->outputs[0]), b.workspace);
}

}  // namespace tessera
