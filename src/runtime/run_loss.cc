// The head's loss, whole and divided.
#include "ir/rule.h"
#include "ir/state.h"
#include "kernels/cross_entropy.h"
#include "kernels/divided_cross_entropy.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

kernels::DividedLogits divided_logits(const BoundOp& b, const TensorView& z) {
  const ValueId v = b.op->inputs[0];
  const Extents e = extents(b, v);
  kernels::DividedLogits l;
  l.z = z;
  l.first = e.begin.back();
  l.columns = e.end.back() - e.begin.back();
  l.total = b.values[v].shape[-1];
  return l;
}

// What the gradient of the loss begins with: the loss scale of the step, where the op has it.
const double* loss_scale(const TensorView& step) {
  return step ? step.as<double>() + kLossScale : nullptr;
}

}  // namespace

double* loss_sum(const BoundOp& b, ValueId labels) {
  double* const sum = b.out[0].as<double>() + kLossSum;
  for (size_t a = static_cast<size_t>(AxisKind::kPipeline) + 1; a < kMaxAxes; ++a)
    if (b.values[labels].sharding.place[a] < 0 && b.position->at.at[a] > 0) return nullptr;
  return sum;
}

void run_cross_entropy(const BoundOp& b) {
  const bool gradient = b.op->as<CrossEntropy>().gradient;
  if (gradient) copy_unless_shared(b, b.in[0], b.out[1]);
  kernels::CrossEntropy a;
  a.logits = as_rows(gradient ? b.out[1] : b.in[0], b.in[0].shape[-1]);
  a.labels = flat(b.in[1]);
  a.report = loss_sum(b, b.op->inputs[1]);
  // Without the gradient the logits stay as they are.
  a.gradient = gradient;
  a.loss_scale = loss_scale(operand(b, CrossEntropy::kStep));
  b.kernels->cross_entropy(b.stream, a, b.workspace, b.threads);
}

void run_linear_cross_entropy(const BoundOp& b) {
  kernels::LinearCrossEntropyOperands a;
  a.x = b.in[0].data;
  a.weight = b.in[1].data;
  a.labels = b.in[2].as<int32_t>();
  a.report = loss_sum(b, b.op->inputs[2]);
  const LinearCrossEntropy& of = b.op->as<LinearCrossEntropy>();
  if (of.gradient) {
    a.dx = b.out[1].data;
    if (!of.frozen) {
      a.dweight = b.out[2].data;
      a.fresh = b.fresh[2];
    }
    a.loss_scale = loss_scale(operand(b, LinearCrossEntropy::kStep));
  }
  b.head->run(b.stream, a, b.workspace);
}

void run_logits_max(const BoundOp& b) {
  b.kernels->logits_max(b.stream, divided_logits(b, b.in[0]), flat(b.out[0]));
}

void run_logits_sums(const BoundOp& b) {
  b.kernels->logits_sums(b.stream, divided_logits(b, b.in[0]), flat(b.in[1]), flat(b.in[2]),
                         flat(b.out[0]));
}

void run_divided_cross_entropy(const BoundOp& b) {
  kernels::DividedCrossEntropy a;
  a.gradient = b.op->as<DividedCrossEntropy>().gradient;
  if (a.gradient) copy_unless_shared(b, b.in[0], b.out[1]);
  a.logits = divided_logits(b, a.gradient ? b.out[1] : b.in[0]);
  a.max = flat(b.in[1]);
  a.sums = flat(b.in[2]);
  a.labels = flat(b.in[3]);
  a.report = loss_sum(b, b.op->inputs[3]);
  a.loss_scale = loss_scale(operand(b, DividedCrossEntropy::kStep));
  b.kernels->divided_cross_entropy(b.stream, a);
}

}  // namespace tessera
