// Runs a program: calls in issue order, ops in order, on one arena.
#pragma once

#include <functional>
#include <vector>

#include "ir/program.h"
#include "runtime/bound_op.h"
#include "runtime/library.h"

namespace tessera {

// An op that has just run, for tracing and for the search of bad numbers.
struct OpEvent {
  const Call& call;
  const Segment& segment;
  const BoundOp& op;
};

class Executor {
 public:
  // `arena` has program.bytes bytes and, like the library, outlives the executor. With `poison`
  // every byte whose value is dead is NaN when a call starts: a read of it shows in the loss.
  Executor(Program program, std::byte* arena, Library& library, bool poison = false);

  void run(const std::function<void(const OpEvent&)>& observe = {});

  const Program& program() const { return program_; }
  // A value in a state frame. layer and microbatch count only where the value has one for each.
  TensorView view(ValueId v, int64_t layer = 0, int64_t microbatch = 0) const;
  // The value of that name, or an abort: names are the program's own.
  ValueId named(std::string_view name) const;

 private:
  // What is known of an op before it runs: where its operands lie but for the frames' offsets.
  struct Operand {
    ValueId value = kNone;
    int parameter = kNone;  // kNone: scratch
  };
  struct PreparedOp {
    const Op* op = nullptr;
    RunOp run = nullptr;
    BoundOp bound;
    std::vector<Operand> in, out;
    std::vector<MemberRange> members;
    std::vector<bool> adds_first;  // this output is the first of the segment to add to its value
    Operand workspace, packed;
  };

  void prepare(const Segment& segment, std::vector<PreparedOp>& out);
  Operand operand(const Segment& segment, ValueId v) const;
  std::byte* address(const Operand& o, const Call& call, const Segment& segment) const;
  void bind(PreparedOp& op, const Call& call, const Segment& segment) const;
  void find_lives();
  void poison_before(size_t call) const;
  void poison_after(size_t call) const;

  Program program_;
  std::byte* arena_;
  Library& library_;
  Position position_;
  std::vector<Value> local_;  // the values with the shapes that this rank has
  bool poison_;
  std::vector<std::vector<PreparedOp>> prepared_;  // of each segment
  std::vector<std::pair<size_t, size_t>> lives_;   // of each frame: first and last call
};

}  // namespace tessera
