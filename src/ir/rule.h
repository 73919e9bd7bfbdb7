// The rule of each op type A, `A::rule`: all facts about a kind of op except its attributes. Rules
// are defined in ir/ops/*.cc and read by passes, the planner and the runtime; only a pass that
// rewrites one op names the op.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/cost.h"
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
  // Labels that stand for heads in one operand and for groups of them in another, so that one
  // extent divides the other. The extents of any other label are equal.
  std::string multiples = {};
};

// The input that an op may overwrite with one of its outputs, as indices. kNone: no input.
struct InPlace {
  int input = kNone, output = 0;
};

// Which forward ops selective recomputation runs again before the backward.
enum class Repeat : uint8_t {
  kSaved,      // not run again: the backward reads saved values
  kCheap,      // run again by `selective: cheap`
  kAttention,  // run again by `selective: cheap` and by `selective: attention`
};

// What the runtime prepares once per shape and shares between the ops of that shape.
enum class Prepared : uint8_t { kNothing, kProduct, kHead, kAttention, kExperts };

// What an op that works on flat frames needs about the weights in them, from the table that its
// attribute `members` names. Each needs what those before it need.
enum class MemberTables : uint8_t { kNothing, kRanges, kStretches, kFactors };

// The part of a step that a plan reports an op's time under.
enum class TimeGroup : uint8_t { kOther, kMatrix, kAttention, kOptimizer };

// What an op does besides computing its outputs from its inputs.
struct Effects {
  bool updates_weights = false;  // its outputs are weights and optimizer state, changed in place
  bool flat_state = false;       // reads flat frames, which ZeRO divides without the op's sharding
  bool loss = false;             // computes the training loss
  bool adds_to_report = false;
  bool converts = false;         // changes the place of a value, not the value
  bool measures_part = false;    // its last output covers this rank's part: ranks must add theirs
  bool may_be_infinite = false;  // infinite outputs are correct: masked scores
  WireKind wire = WireKind::kSilent;  // what it communicates
};

// The bytes of a value on one rank, as a quantity of a cost.
double bytes_of(ValueSpan values, ValueId v);
// Every input and output is read or written once, by elementwise work.
Cost sweep_cost(const Op& op, ValueSpan values);

struct OpRule {
  // Checks the inputs (CHECK: a wrong model is our bug) and returns the outputs.
  std::vector<OutputSpec> (*infer)(const Op&, const Inputs&);
  ShardingRule (*sharding)(const Op&, ValueSpan);
  void (*gradient)(Gradients&, const Op&) = nullptr;  // nullptr: no gradient passes
  Cost (*cost)(const Op&, ValueSpan) = sweep_cost;
  InPlace (*in_place)(const Op&) = nullptr;  // nullptr: never
  Repeat repeat = Repeat::kSaved;
  Prepared prepared = Prepared::kNothing;
  MemberTables members = MemberTables::kNothing;
  TimeGroup time = TimeGroup::kOther;
  Effects effects = {};
};

const OpRule& rule_of(OpKind kind);
inline const OpRule& rule_of(const Op& op) { return rule_of(op.kind()); }

// The cost of the op, or of its chunk alone.
Cost cost_of(const Op& op, ValueSpan values);
InPlace in_place_of(const Op& op);

// Whether the op changes an output of that role in place: weights, optimizer state and caches.
bool changes_state(const Op& op, Role output);

// Communication. A message goes to or comes from another stage; a reduction adds the values of
// ranks.
bool communicates(const Op& op);
bool is_message(const Op& op);
bool reduces(const Op& op);
// The operand of a collective that holds the whole: the output of an all_gather, else the input.
ValueId whole_operand(const Op& op);
// The dtype in which a communicating op sends values, the range of n elements that is this op's
// piece, and the bytes that one rank copies on the way.
DType wire_type(const Op& op, const Value& v);
struct FlatPiece {
  int64_t first = 0, last = 0;
  int64_t elements() const { return last - first; }
};
FlatPiece piece_of(const Op& op, int64_t n);
bool is_piece(const Op& op);  // one of several ops that make one sum
bool is_staged(const Op& op);
int64_t staged_bytes(const Op& op, ValueSpan local_values);

}  // namespace tessera
