#include "kernels/cuda/rows.h"

#include "kernels/cuda/views.h"

namespace tessera::kernels::cuda {
namespace {

Activation activation(GeluKind k) {
  return k == GeluKind::kErf ? Activation::kErf : Activation::kTanh;
}
Activation activation(GateKind k) {
  if (k == GateKind::kSilu) return Activation::kSilu;
  return k == GateKind::kErf ? Activation::kErf : Activation::kTanh;
}

bool all_aligned(Views views) {
  for (View v : views)
    if (!aligned(v.data)) return false;
  return true;
}

SumRows sum_rows(Views terms, Views biases, View out) {
  CHECK(terms.size() <= kMostTerms && biases.size() <= kMostTerms, "a sum of {} terms, {} biases",
        terms.size(), biases.size());
  SumRows a;
  a.groups = groups_of(rows_of(out), columns_of(out), out);
  a.groups.vector = a.groups.vector && all_aligned(terms) && all_aligned(biases);
  for (View t : terms) a.term[a.terms++] = numbers(t);
  for (View b : biases) a.bias[a.biases++] = numbers(b);
  a.out = numbers(out);
  return a;
}

void finish_norm(Stream s, NormRows a, const Norm& n) {
  CHECK(!n.outputs.empty() && n.outputs.size() <= kMaxNormOutputs, "a norm with {} outputs",
        n.outputs.size());
  for (const NormOutput& o : n.outputs) {
    a.gain[a.outputs] = numbers(o.gain);
    a.bias[a.outputs] = numbers(o.bias);
    a.y[a.outputs++] = numbers(o.y);
    a.sum.groups.vector =
        a.sum.groups.vector && aligned(o.gain.data) && aligned(o.bias.data) && aligned(o.y.data);
  }
  a.centred = n.kind == NormKind::kLayer;
  a.epsilon = n.epsilon;
  a.stats = n.stats ? n.stats.f32() : nullptr;
  launch_norm(a, s);
}

}  // namespace

void clear(Stream s, View y) { fill_in_stream(s, y.data, 0, y.bytes()); }
void copy(Stream s, View from, View to) { copy_in_stream(s, to.data, from.data, to.bytes()); }

void cast(Stream s, View x, View y) {
  CHECK(x.elements() == y.elements(), "cast of {} to {}", to_string(x.shape), to_string(y.shape));
  if (x.dtype == y.dtype) return copy(s, x, y);
  scale(s, x, 1, y);
}

void scale(Stream s, View x, float factor, View y) {
  launch_scale({groups_of(1, y.elements(), x, y), numbers(x), numbers(y), factor}, s);
}

void sum(Stream s, Views terms, Views biases, View out) {
  launch_sum(sum_rows(terms, biases, out), s);
}

void bias_grad(Stream s, View dy, View dbias, void* workspace) {
  ColumnSums a;
  a.groups = groups_of(rows_of(dy), columns_of(dy), dy);
  a.dy = numbers(dy);
  a.to = numbers(dbias);
  a.partials = static_cast<float*>(workspace);
  launch_column_sums(a, s);
}

void norm(Stream s, View x, const Norm& n) {
  NormRows a;
  a.sum.groups = groups_of(rows_of(x), columns_of(x), x);
  a.sum.out = numbers(x);
  finish_norm(s, a, n);
}

void sum_norm(Stream s, Views terms, Views biases, View out, const Norm& n) {
  NormRows a;
  a.sum = sum_rows(terms, biases, out);
  finish_norm(s, a, n);
}

void norm_grad(Stream s, const NormGrad& a, void* workspace) {
  const NormGradRows rows = {
      .groups = groups_of(rows_of(a.x), columns_of(a.x), a.x, a.gain, a.dy, a.dx),
      .centred = a.kind == NormKind::kLayer,
      .accumulate = a.accumulate_dx,
      .x = numbers(a.x),
      .gain = numbers(a.gain),
      .dy = numbers(a.dy),
      .dx = numbers(a.dx),
      .stats = a.stats.f32()};
  auto* const partials = static_cast<float*>(workspace);
  if (rows.groups.columns <= kMostSweptColumns)
    return launch_norm_grad_sweep({rows, numbers(a.dgain), numbers(a.dbias), partials}, s);
  ColumnSums sums;
  sums.groups = rows.groups;
  sums.dy = rows.dy;
  sums.x = rows.x;
  sums.stats = rows.stats;
  sums.gain = numbers(a.dgain);
  sums.to = numbers(a.dbias);
  sums.partials = partials;
  launch_column_sums(sums, s);  // first: dx may take the place of dy
  launch_norm_grad(rows, s);
}

void gelu(Stream s, GeluKind kind, View x, View bias, View y) {
  launch_gelu({.groups = groups_of(rows_of(y), columns_of(y), x, bias, y),
               .kind = activation(kind),
               .x = numbers(x),
               .bias = numbers(bias),
               .y = numbers(y),
               .dy = {}},
              s);
}

void gelu_grad(Stream s, const GeluGrad& a, void* workspace) {
  const Groups groups = groups_of(rows_of(a.dx), columns_of(a.dx), a.x, a.bias, a.dy, a.dx);
  if (a.dbias) {  // both in one sweep, and sums of what is not rounded yet
    ColumnSums sums;
    sums.groups = groups;
    sums.dy = numbers(a.dy);
    sums.to = numbers(a.dbias);
    sums.of = numbers(a.x);
    sums.bias = numbers(a.bias);
    sums.kind = activation(a.kind);
    sums.dx = numbers(a.dx);
    sums.partials = static_cast<float*>(workspace);
    return launch_column_sums(sums, s);
  }
  launch_gelu_grad({.groups = groups,
                    .kind = activation(a.kind),
                    .x = numbers(a.x),
                    .bias = numbers(a.bias),
                    .y = numbers(a.dx),
                    .dy = numbers(a.dy)},
                   s);
}

void gated_activation(Stream s, GateKind kind, View x, View y) {
  launch_gated({.groups = groups_of(1, y.elements(), x, y),
                .kind = activation(kind),
                .x = numbers(x),
                .y = numbers(y),
                .dy = {},
                .dx = {}},
               s);
}

void gated_activation_grad(Stream s, const GatedActivationGrad& a) {
  launch_gated_grad({.groups = groups_of(1, a.dy.elements(), a.x, a.dy, a.dx),
                     .kind = activation(a.kind),
                     .x = numbers(a.x),
                     .y = {},
                     .dy = numbers(a.dy),
                     .dx = numbers(a.dx)},
                    s);
}

void dropout(Stream s, View x, View samples, const Dropout& d, View y, const DropoutWindow& w,
             View mask) {
  CHECK(x.shape.rank() == 3 && y.elements() == x.elements() && samples.elements() == x.shape[0],
        "dropout of {} to {} for {} samples", to_string(x.shape), to_string(y.shape),
        samples.elements());
  launch_dropout({.groups = groups_of(rows_of(x), columns_of(x), x, y),
                  .x = numbers(x),
                  .y = numbers(y),
                  .samples = samples.as<int64_t>(),
                  .rows_of_sample = x.shape[1],
                  .key = {d.key, d.seed, d.step, d.layer},
                  .kept = mask.as<uint8_t>(),
                  .probability = d.probability,
                  .scale = 1.0f / (1.0f - d.probability),
                  .first_row = w.first_row,
                  .first_column = w.first_column,
                  .width = w.width == 0 ? columns_of(x) : w.width},
                 s);
}

void dropout_grad(Stream s, View dy, View mask, float probability, View dx) {
  DropRows a;
  a.groups = groups_of(1, dx.elements(), dy, dx);
  a.x = numbers(dy);
  a.y = numbers(dx);
  a.kept = mask.as<uint8_t>();
  a.scale = 1.0f / (1.0f - probability);
  launch_dropout_grad(a, s);
}

}  // namespace tessera::kernels::cuda
