// Verifies graphs and programs: ids exist, outputs agree with the rules of their ops, and each
// value is computed once and before it is read. References are checked first, so that later checks
// can follow them.
//
// A finding is text and not an exception, so one call reports all of them. The check uses nothing
// of the passes that made the program: it computes types and shapes from the rules of the ops, and
// compares. Time is linear in ops and operands.
#include "ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

std::string type_text(DType t, const Shape& s) {
  return fmt::format("{} {}", name_of(t), to_string(s));
}

// Calls visit(value, "input 2") for each value of an op.
void each_operand(const Op& op, const std::function<void(ValueId, const std::string&)>& visit) {
  for (size_t i = 0; i < op.inputs.size(); ++i) visit(op.inputs[i], fmt::format("input {}", i));
  for (size_t i = 0; i < op.outputs.size(); ++i) visit(op.outputs[i], fmt::format("output {}", i));
  if (op.workspace != kNone) visit(op.workspace, "workspace");
  if (op.packed != kNone) visit(op.packed, "packed weight");
}

Findings verify_ids(const Op& op, ValueSpan values, const std::string& name) {
  Findings findings;
  each_operand(op, [&](ValueId v, const std::string& what) {
    if (!values.contains(v))
      findings.push_back(fmt::format("{}: {} is value {} of {}", name, what, v, values.size()));
  });
  return findings;
}

// Compares the outputs with what the op's rule infers from the inputs.
Findings verify_types(const Op& op, ValueSpan values, const std::string& name) {
  Inputs in;
  for (const ValueId v : op.inputs) in.push_back(&values[v]);
  const std::vector<OutputSpec> specs = rule_of(op.kind()).infer(op, in);
  if (specs.size() != op.outputs.size())
    return {fmt::format("{}: has {} outputs, its rule gives {}", name, op.outputs.size(),
                        specs.size())};
  Findings findings;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Value& v = values[op.outputs[i]];
    if (v.dtype != specs[i].dtype || v.shape != specs[i].shape)
      findings.push_back(fmt::format("{}: output {} is {}, its rule gives {}", name, v.name,
                                     type_text(v.dtype, v.shape),
                                     type_text(specs[i].dtype, specs[i].shape)));
  }
  return findings;
}

// Numbers outside the ranges that the fields of the op's type state.
Findings verify_attributes(const Op& op, const std::string& name) {
  Findings findings;
  const auto look_at = [&](const char* key, auto number, const Range& range) {
    if (!range.contains(static_cast<double>(number)))
      findings.push_back(
          fmt::format("{}: {} = {}, expected {}", name, key, number, text_of(range)));
  };
  const auto look = [&]<class T>(const char* key, const T& field, Print = {},
                                 const Range& range = {}) {
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>)
      look_at(key, field, range);
    if constexpr (std::is_same_v<T, std::vector<double>>)
      for (const double x : field) look_at(key, x, range);
  };
  std::visit([&]<class A>(const A& attributes) { A::fields(attributes, look); }, op.attributes);
  return findings;
}

// Verifies the ops of one list in order. `made` contains the values that exist before it.
Findings verify_list(const Graph& g, ShardingCheck shardings, const std::vector<Op>& ops,
                     const std::string& where, std::set<ValueId>& made) {
  const Mesh mesh = shardings == ShardingCheck::kIgnored ? Mesh() : g.mesh;
  Findings findings;
  std::set<ValueId> here;
  for (const Op& op : ops) {
    const std::string name = op_name(op, where);
    Findings ids = verify_ids(op, g.values, name);
    if (!ids.empty()) {
      append(findings, std::move(ids));
      continue;
    }
    for (const ValueId v : op.inputs)
      if (is_computed(g[v].role) && !made.contains(v))
        findings.push_back(
            fmt::format("{}: reads {}, which nothing before it made", name, g[v].name));
    for (const ValueId v : op.outputs) {
      if (is_computed(g[v].role) && !here.insert(v).second && op.chunk.is_whole())
        findings.push_back(fmt::format("{}: makes {} a second time", name, g[v].name));
      made.insert(v);
    }
    append(findings, verify_op(op, g.values, where, mesh, shardings == ShardingCheck::kSameBytes));
  }
  return findings;
}

// The lists of a block in the order in which they run. What one list computes, the next may read;
// the incoming values are the block's input, the gradient of its output and the encoder output.
Findings verify_block(const Graph& g, ShardingCheck shardings, const Block& b) {
  Findings findings;
  for (const ValueId v : {b.input, b.output, b.input_gradient, b.output_gradient})
    if (v != kNone && !g.values.contains(v))
      findings.push_back(fmt::format("block {}: names value {} of {}", b.name, v, g.values.size()));
  if (!findings.empty()) return findings;
  std::set<ValueId> made = {b.input, b.output_gradient, g.encoder_output};
  const bool gives_memory = std::any_of(b.forward.begin(), b.forward.end(), [&](const Op& op) {
    return std::find(op.outputs.begin(), op.outputs.end(), g.encoder_output) != op.outputs.end();
  });
  if (gives_memory) made.erase(g.encoder_output);
  append(findings, verify_list(g, shardings, b.forward, "forward." + b.name, made));
  if (b.output != kNone && !made.contains(b.output))
    findings.push_back(
        fmt::format("block {}: no op makes its output {}", b.name, g[b.output].name));
  // The backward of the loss block begins with its forward.
  if (b.loss) made = {b.input, g.encoder_output};
  append(findings, verify_list(g, shardings, b.backward, "backward." + b.name, made));
  if (b.input_gradient != kNone && !b.backward.empty() && !made.contains(b.input_gradient))
    findings.push_back(fmt::format("block {}: no op makes the gradient of its input", b.name));
  append(findings, verify_list(g, shardings, b.weights, "weight_backward." + b.name, made));
  return findings;
}

// The layers of a stream are numbered from 0, and each belongs to one stack.
Findings verify_layers(const Graph& g) {
  Findings findings;
  EnumArray<HiddenStream, std::set<int64_t>> seen;
  for (const Block& b : g.blocks) {
    if (b.is_stack() == b.at.empty())
      findings.push_back(fmt::format("block {}: is {} stack and has {} numbers of layers", b.name,
                                     b.is_stack() ? "a" : "no", b.at.size()));
    if (!std::is_sorted(b.at.begin(), b.at.end()))
      findings.push_back(fmt::format("block {}: its layers do not rise", b.name));
    for (const int64_t layer : b.at)
      if (!seen[b.from].insert(layer).second)
        findings.push_back(fmt::format("block {}: layer {} exists twice", b.name, layer));
  }
  for (const std::set<int64_t>& layers : seen)
    if (!layers.empty() && (*layers.begin() != 0 || *layers.rbegin() + 1 != std::ssize(layers)))
      findings.push_back(fmt::format("the {} layers of a stream have numbers {} to {}",
                                     layers.size(), *layers.begin(), *layers.rbegin()));
  return findings;
}

// Verifies that everything a program refers to exists.
Findings verify_references(const Program& p) {
  Findings findings;
  const auto need = [&](auto id, const auto& list, const std::string& what) {
    if (!list.contains(id)) findings.push_back(fmt::format("{} {} of {}", what, id, list.size()));
  };
  for (const Value& v : p.values)
    if (v.buffer != kNone) need(v.buffer, p.kinds, v.name + ": is stored in buffer kind");
  for (const BufferKind& k : p.kinds) {
    for (const ValueId v : k.values) need(v, p.values, k.name + ": holds value");
    if (k.like != kNone) need(k.like, p.kinds, k.name + ": has the layout of buffer kind");
  }
  for (const Segment& s : p.segments) {
    for (const Parameter& x : s.buffers)
      need(x.kind, p.kinds, s.name() + ": has a parameter of buffer kind");
    for (size_t i = 0; i < s.ops.size(); ++i) {
      const Op& op = s.ops[i];
      append(findings, verify_ids(op, p.values, op_name(op, s.name())));
      for (const int32_t j : op.after)
        if (j < 0 || !std::cmp_less(j, i))
          findings.push_back(
              fmt::format("{}: waits for op {}, which is not before it", op_name(op, s.name()), j));
    }
  }
  for (const Buffer& f : p.buffers) need(f.kind, p.kinds, "a buffer is of kind");
  for (const CallId c : p.schedule.ids()) {
    const Call& call = p.schedule[c];
    const std::string name = fmt::format("call #{}:", c);
    need(call.segment, p.segments, name + " runs segment");
    for (const BufferId f : call.buffers) need(f, p.buffers, name + " has buffer");
    for (const CallId y : call.after) need(y, p.schedule, name + " waits for call");
    for (const CallId y : call.before_step) need(y, p.schedule, name + " waits for call");
  }
  return findings;
}

}  // namespace

std::string op_name(const Op& op, const std::string& where) {
  return fmt::format("{}{}{} ({})", where, where.empty() || op.origin.empty() ? "" : " ", op.origin,
                     name_of(op.kind()));
}

std::vector<std::string> verify_op(const Op& op, ValueSpan values, const std::string& where,
                                   const Mesh& mesh, bool same_bytes) {
  const std::string name = op_name(op, where);
  Findings findings = verify_ids(op, values, name);
  if (!findings.empty()) return findings;
  findings = verify_attributes(op, name);
  if (findings.empty()) findings = verify_types(op, values, name);
  if (findings.empty()) findings = verify_sharding(op, values, mesh, same_bytes, name);
  return findings;
}

std::vector<std::string> verify(const Graph& g, ShardingCheck shardings) {
  Findings findings =
      verify_values(g.values, shardings == ShardingCheck::kIgnored ? Mesh() : g.mesh);
  if (!findings.empty()) return findings;
  append(findings, verify_layers(g));
  for (const Block& b : g.blocks) append(findings, verify_block(g, shardings, b));
  return findings;
}

std::vector<std::string> verify(const Program& p) {
  Findings findings = verify_references(p);
  if (findings.empty()) findings = verify_numbers(p);
  if (!findings.empty()) return findings;
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) append(findings, verify_op(op, p.values, s.name(), p.mesh, true));
  append(findings, verify_queues(p));
  if (!findings.empty()) return findings;
  append(findings, verify_layout(p));
  append(findings, verify_products(p));
  append(findings, verify_buffers_of_calls(p));
  return findings;
}

std::vector<std::string> verify_calls(const Program& p) {
  Findings findings = verify_references(p);
  if (findings.empty()) findings = verify_numbers(p);
  return findings.empty() ? verify_buffers_of_calls(p) : findings;
}

}  // namespace tessera
