#include "kernels/cuda/tokens.h"

#include "kernels/cuda/views.h"

namespace tessera::kernels::cuda {
namespace {

TableWork table_work(View ids, int64_t columns, View table, const TableRows& rows) {
  TableWork a;
  a.ids = ids.as<int32_t>();
  a.tokens = ids.elements();
  a.columns = columns;
  a.rows = table.shape[0];
  a.first = rows.first;
  a.total = rows.total > 0 ? rows.total : a.rows;
  return a;
}

LossWork loss_work(const DividedLogits& l) {
  LossWork a;
  a.z = l.z.f32();
  a.width = columns_of(l.z);
  a.rows = rows_of(l.z);
  a.columns = l.columns;
  a.first = l.first;
  a.total = l.total;
  a.vector = a.width % kGroup == 0 && aligned(a.z);
  return a;
}

}  // namespace

void embedding(Stream s, View ids, View table, View y, const TableRows& rows) {
  TableWork a = table_work(ids, table.shape[1], table, rows);
  a.vector = a.columns % kGroup == 0 && aligned(table.data) && aligned(y.data);
  a.table = numbers(table);
  a.y = numbers(y);
  launch_embedding(a, s);
}

void embedding_grad(Stream s, View ids, View dy, View d_table, const TableRows& rows, void*) {
  TableWork a = table_work(ids, columns_of(dy), d_table, rows);
  a.vector = a.columns % kGroup == 0 && aligned(dy.data) && aligned(d_table.data);
  a.dy = numbers(dy);
  a.d_table = numbers(d_table);
  launch_embedding_grad(a, s);
}

void rotary(Stream s, View qkv, View positions, const Rotary& r, void* workspace) {
  CHECK(qkv.shape.rank() == 5 && r.dims % 2 == 0 && r.dims <= 2 * kMostRotaryPairs,
        "rotary of {} turns {} dimensions", to_string(qkv.shape), r.dims);
  RotaryWork a;
  a.qkv = numbers(qkv);
  a.positions = positions.as<int32_t>();
  a.tokens = qkv.shape[0] * qkv.shape[1];
  a.groups = qkv.shape[2];
  a.slots = qkv.shape[3];
  a.d = qkv.shape[4];
  a.half = r.dims / 2;
  a.inverse = r.inverse;
  a.vector = a.d % kGroup == 0 && a.half % kGroup == 0 && aligned(qkv.data) && aligned(workspace);
  a.table = static_cast<float*>(workspace);
  for (int64_t i = 0; i < a.half; ++i) a.frequency[i] = rotary_frequency(r, i);
  launch_rotary(a, s);
}

void cross_entropy(Stream s, const CrossEntropy& c, void* workspace, int) {
  const int64_t columns = columns_of(c.logits);
  LossWork a = loss_work({c.logits, columns, 0, columns});
  a.labels = c.labels.as<int32_t>();
  a.losses = static_cast<double*>(workspace);
  a.report = c.report;
  a.gradient = c.gradient;
  a.dz = numbers(c.logits);
  a.scale = c.gradient_scale;
  a.loss_scale = c.loss_scale;
  launch_loss(a, s);
}

void logits_max(Stream s, const DividedLogits& l, View max) {
  LossWork a = loss_work(l);
  a.max = max.f32();
  launch_logits_max(a, s);
}

void logits_sums(Stream s, const DividedLogits& l, View max, View labels, View sums) {
  LossWork a = loss_work(l);
  a.max = max.f32();
  a.labels = labels.as<int32_t>();
  a.sums = sums.f32();
  launch_logits_sums(a, s);
}

void divided_cross_entropy(Stream s, const DividedCrossEntropy& d) {
  LossWork a = loss_work(d.logits);
  a.max = d.max.f32();
  a.sums = d.sums.f32();
  a.labels = d.labels.as<int32_t>();
  a.report = d.report;
  a.gradient = d.gradient;
  a.dz = numbers(d.logits.z);
  a.scale = d.gradient_scale;
  a.loss_scale = d.loss_scale;
  launch_divided_loss(a, s);
}

}  // namespace tessera::kernels::cuda
