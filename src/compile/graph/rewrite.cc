// Small queries and edits on lists of ops that the graph passes share.
#include "compile/graph/rewrite.h"

#include <algorithm>

#include "ir/rule.h"

namespace tessera::compile {

int readers(const std::vector<Op>& ops, ValueId v) {
  return static_cast<int>(std::count_if(ops.begin(), ops.end(), [v](const Op& op) {
    return std::find(op.inputs.begin(), op.inputs.end(), v) != op.inputs.end();
  }));
}

int writer(const std::vector<Op>& ops, ValueId v) {
  for (int i = 0; i < std::ssize(ops); ++i)
    if (std::find(ops[i].outputs.begin(), ops[i].outputs.end(), v) != ops[i].outputs.end())
      return i;
  return -1;
}

void replace_reads(std::vector<Op>& ops, ValueId from, ValueId to) {
  for (Op& op : ops) std::replace(op.inputs.begin(), op.inputs.end(), from, to);
}

ValueId clone_value(Graph& graph, ValueId v, const std::string& suffix) {
  Value copy = graph[v];
  copy.name += suffix;
  copy.buffer = kNone;
  copy.offset = kNone;
  copy.copy = CopyKind::kOriginal;
  copy.of = kNone;
  return graph.values.push_back(std::move(copy));
}

ValueId copy_value(Graph& graph, ValueId v, CopyKind copy) {
  const ValueId made = clone_value(graph, v, std::string(suffix_of(copy)));
  graph[made].copy = copy;
  graph[made].of = v;
  return made;
}

void infer_types(Graph& graph, const Op& op) {
  Inputs in;
  for (const ValueId v : op.inputs) in.push_back(&graph[v]);
  const std::vector<OutputSpec> specs = rule_of(op.kind()).infer(op, in);
  for (size_t i = 0; i < specs.size(); ++i) graph[op.outputs[i]].dtype = specs[i].dtype;
}

}  // namespace tessera::compile
