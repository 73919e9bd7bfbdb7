// What the compiler knows of an op: one OpRule a kind, each in its own file of ir/ops/.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/program.h"

namespace tessera {

class Gradients;

// An output as the shape rule infers it. `name` is appended to the op's origin.
struct OutputSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

using Inputs = std::vector<const Value*>;

// Labels of each operand's dimensions, einsum style ("btf,vf->btv", an operand of no dimensions
// is ""), which labels can be split over an axis, and the sets of inputs that the op is linear in
// together (indices; a product has two of one input each). `maximum`: over a split label outputs
// are maxima, not sums. What follows from these stands in ir/signature.h.
struct ShardingRule {
  std::vector<std::string> inputs, outputs;
  std::string splits;
  std::vector<std::vector<int>> linear;
  bool maximum = false;
  bool loss =
      false;  // begins the backward: where all is shared, its gradient would count each rank
};

// FLOPs by the usual count (2 a multiply-add) and bytes that must move at least once.
struct Cost {
  double flops = 0, bytes = 0;
};

struct OpRule {
  OpKind kind;
  std::string_view name;
  // Checks the inputs (CHECK: a wrong model is our bug) and says what comes out.
  std::vector<OutputSpec> (*infer)(const Attributes&, const Inputs&);
  ShardingRule (*sharding)(const Op&, ValueSpan);
  void (*gradient)(Gradients&, const Op&);  // nullptr: no gradient passes
  double (*flops)(const Op&, ValueSpan);    // nullptr: bandwidth only
};

const OpRule& rule_of(OpKind kind);
const OpRule* rule_named(std::string_view name);

// Bytes: every input and output once. FLOPs by the op's own rule.
Cost cost_of(const Op& op, ValueSpan values);

// Of what an op communicates (ir/ops/communicate.cc): the type in which it goes to other ranks, the
// stretch of n elements that is this op's piece, and the bytes that are copied on the way, on one
// rank.
DType wire_type(const Op& op, const Value& v);
struct FlatPiece {
  int64_t first = 0, last = 0;
  int64_t elements() const { return last - first; }
};
FlatPiece piece_of(const Op& op, int64_t n);
bool is_staged(const Op& op);
int64_t staged_bytes(const Op& op, ValueSpan local_values);

}  // namespace tessera
