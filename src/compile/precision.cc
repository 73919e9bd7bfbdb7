#include "base/error.h"
#include "compile/passes.h"
#include "ir/rule.h"

namespace tessera {
namespace {

void infer_again(Graph& g, const Op& op) {
  Inputs in;
  for (const ValueId v : op.inputs) in.push_back(&g[v]);
  const std::vector<OutputSpec> specs = rule_of(op.kind).infer(op.attributes, in);
  for (size_t i = 0; i < specs.size(); ++i) g[op.outputs[i]].dtype = specs[i].dtype;
}

}  // namespace

void apply_precision(Graph& graph, Precision precision) {
  if (precision == Precision::kFp32) return;
  CHECK(precision == Precision::kBf16 || precision == Precision::kBf16Sr,
        "precision {} has no policy here", static_cast<int>(precision));
  for (Value& v : graph.values)
    if (v.role == Role::kWeight || v.role == Role::kStream) v.dtype = DType::kBF16;
  for (const Block& b : graph.blocks)
    for (const Op& op : b.forward) infer_again(graph, op);
}

}  // namespace tessera
