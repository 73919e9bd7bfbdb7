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

// An output as inferred by the shape rule. `name` is appended to the op's origin.
struct OutputSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

using Inputs = std::vector<const Value*>;

// Labels of each operand's dimensions, einsum style ("btf,vf->btv"; "" for an operand without
// dimensions), the labels that can be split over an axis, and the sets of inputs in which the op is
// jointly linear (indices; a GEMM has two sets of one input each). `maximum`: if a label is split,
// outputs are maxima, not sums. ir/signature.h derives signatures from these.
struct ShardingRule {
  std::vector<std::string> inputs, outputs;
  std::string splits;
  std::vector<std::vector<int>> linear;
  bool maximum = false;
  bool loss =
      false;  // begins the backward: if all operands were shared, each rank would add its gradient
  // Labels that denote heads in one operand and groups of heads in another, so that one extent
  // divides the other. The extents of any other label are equal.
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

// The objects that the runtime prepares once per shape, shared by all ops of that shape.
enum class Prepared : uint8_t { kNothing, kProduct, kHead, kAttention, kExperts, kNewtonSchulz };

// The information that an op on flat buffers needs about the weights in them, from the table that
// its attribute `members` names. Each entry up to kFactors includes the ones before it; kMatrices
// includes kRuns.
enum class MemberTables : uint8_t { kNothing, kRanges, kRuns, kFactors, kMatrices };

// The part of a step to which a plan assigns the time of an op.
enum class TimeGroup : uint8_t { kOther, kMatrix, kAttention, kOptimizer };

// The effects of an op other than computing its outputs from its inputs.
struct Effects {
  bool updates_weights = false;  // its outputs are weights and optimizer state, changed in place
  bool flat_state = false;       // reads flat buffers, which ZeRO divides, not the op's sharding
  bool loss = false;             // computes the training loss
  bool adds_to_report = false;
  bool measures_step = false;    // its output is a maximum over the micro-batches of a step
  bool converts = false;         // changes the placement of a value, not the value
  bool measures_part = false;    // its last output covers only this rank's shard: ranks must add
                                 // theirs
  bool may_be_infinite = false;  // infinite outputs are correct (masked scores)
  bool writes_part = false;      // a later op writes the other parts of its output
  CommKind comm = CommKind::kSilent;  // the kind of communication
};

// Returns the bytes of a value on one rank, as a quantity of a cost.
double bytes_of(ValueSpan values, ValueId v);
// Returns the cost of elementwise work: every input is read and every output written once.
Cost sweep_cost(const Op& op, ValueSpan values);

struct OpRule {
  // Checks the inputs (CHECK: a wrong model is a bug of Tessera) and returns the outputs.
  std::vector<OutputSpec> (*infer)(const Op&, const Inputs&);
  ShardingRule (*sharding)(const Op&, ValueSpan);
  void (*gradient)(Gradients&, const Op&) = nullptr;  // nullptr: no gradient is propagated
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

// Returns the cost of the op; if it works on a chunk, that of the chunk.
Cost cost_of(const Op& op, ValueSpan values);
InPlace in_place_of(const Op& op);

// Returns true if the op changes an output with that role in place: weights, optimizer state and
// caches.
bool changes_state(const Op& op, Role output);

// Communication. A message goes to or comes from another stage; a reduction adds the values of
// several ranks.
bool communicates(const Op& op);
bool is_message(const Op& op);
bool reduces(const Op& op);
// Returns the operand of a collective that holds the whole: the output of an all_gather, else the
// input.
ValueId whole_operand(const Op& op);
// Return the dtype in which a communicating op sends values, the range of n elements that is this
// op's piece, and the bytes that one rank stages for the transfer.
DType wire_type(const Op& op, const Value& v);
struct FlatPiece {
  int64_t first = 0, last = 0;
  int64_t elements() const { return last - first; }
};
FlatPiece piece_of(const Op& op, int64_t n);
bool is_piece(const Op& op);  // true for one of several ops that compute one sum
bool is_staged(const Op& op);
int64_t staged_bytes(const Op& op, ValueSpan local_values);

}  // namespace tessera
