// Sets the dtype of every value according to the precision policy, loss scaling, and FP8 GEMMs.
// Weights and hidden states get the compute dtype; the type inference of the ops gives the rest, so
// norm statistics and losses stay f32.
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/real.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

// Returns a pointer to the FP8 format of a GEMM, or nullptr for other ops.
Fp8Format* fp8_format(Op& op) {
  if (Matmul* const a = op.if_as<Matmul>()) return &a->fp8;
  if (MatmulGradInput* const a = op.if_as<MatmulGradInput>()) return &a->fp8;
  if (MatmulGradWeight* const a = op.if_as<MatmulGradWeight>()) return &a->fp8;
  return nullptr;
}

// Sets `scaled` of an op that computes the gradient of a loss. Returns true if the op is one.
bool set_scaled(auto& loss) {
  if constexpr (requires { loss.scaled; }) {
    if constexpr (requires { loss.gradient; }) {
      loss.scaled = loss.gradient;
      return loss.gradient;
    } else {  // a loss whose gradient is an op of its own
      loss.scaled = true;
      return true;
    }
  } else {
    return false;
  }
}

}  // namespace

DType type_of(Precision precision) {
  CHECK(precision != Precision::kAuto, "precision auto has no policy here");
  if (precision == Precision::kFp32) return DType::kF32;
  return precision == Precision::kFp16 ? DType::kF16 : DType::kBF16;
}

void apply_precision(Graph& graph, Precision precision) {
  if (precision == Precision::kFp32) return;
  const DType type = type_of(precision);
  for (Value& v : graph.values)
    if ((v.role == Role::kWeight && v.policy != kBalancePolicy) || v.role == Role::kHidden)
      v.dtype = type;
  for (const Block& b : graph.blocks)
    for (const Op& op : b.forward) infer_types(graph, op);
}

void multiply_in_fp8(Graph& graph) {
  constexpr int64_t kMultiple = 16;
  const ValueVector local = local_values(graph.values);
  // cuBLASLt needs multiples of 16 for m, n and k. The operands have m k, n k and m n elements, so
  // the square root of the product of these numbers is m n k, and its quotient by one of them is an
  // extent. This also holds for the gradients of a GEMM.
  const auto fits = [&](const Op& op) {
    const Shape &a = local[op.inputs[0]].shape, &b = local[op.inputs[1]].shape,
                &c = local[op.outputs[0]].shape;
    const double all = real_product(a.elements(), b.elements(), c.elements());
    const int64_t product = std::llround(std::sqrt(all));
    for (const Shape* s : {&a, &b, &c})
      if (product / s->elements() % kMultiple != 0) return false;
    return true;
  };
  // GEMMs outside the loss with an f32 output are those of routers, which keep their precision.
  std::set<ValueId> routers;
  for (const Block& b : graph.blocks)
    for (const Op& op : b.forward)
      if (const Matmul* const a = op.if_as<Matmul>(); a && a->out && !b.loss)
        routers.insert(op.inputs[Matmul::kW]);
  const auto routes = [&](const Op& op) {
    return routers.contains(op.inputs[1]) || routers.contains(graph[op.outputs[0]].of);
  };
  for (Block& b : graph.blocks) {
    if (b.loss) continue;
    for (std::vector<Op>* ops : {&b.forward, &b.backward, &b.weights})
      for (Op& op : *ops) {
        Fp8Format* const format = fp8_format(op);
        if (format != nullptr && !routes(op) && fits(op))
          // E4M3 (more mantissa) for forward operands; gradients need E5M2's range (Micikevicius et
          // al. 2022).
          *format = op.is<Matmul>() ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
      }
  }
}

void scale_loss(Graph& graph) {
  ValueId step = kNone;
  for (const ValueId i : graph.values.ids())
    if (graph.values[i].role == Role::kStep) step = i;
  CHECK(step != kNone, "the graph has no step");
  for (Block& b : graph.blocks)
    for (Op& op : b.backward) {
      const bool loss = std::visit([](auto& a) { return set_scaled(a); }, op.attributes);
      if (loss) op.inputs.push_back(step);
    }
}

}  // namespace tessera::compile
