// A binding defines how the runtime runs an op, as a rule (ir/rule.h) defines how the compiler
// treats it: it turns the operands into the arguments of kernels. Bindings are defined in
// runtime/ops.
#pragma once

#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "ir/operands.h"
#include "ir/state/member_ranges.h"
#include "kernels/kernel.h"
#include "kernels/kernels.h"
#include "runtime/communicator_map.h"
#include "runtime/member_runs.h"
#include "tensor/tensor.h"

namespace tessera::runtime {

// An op with its operands bound to memory: the argument of its binding.
struct BoundOp {
  const Op* op = nullptr;
  ValueSpan values;  // values of the program, for the boxes of operands (extents)
  const RankPosition* position = nullptr;  // nullptr: bound to the shapes of a single rank
  // In the order of the op's operands. If the op is bound to shapes only, data is nullptr.
  std::vector<TensorView> inputs, outputs;
  std::vector<bool> fresh;               // per output: true: overwritten, false: added to
  const FlatMembers* members = nullptr;  // for squares and updates
  kernels::Launch launch;
  const kernels::KernelTable* kernels = &kernels::cpu_kernels();
  const kernels::PreparedKernel* prepared = nullptr;  // if the rule of the op asks for one
  void* packed = nullptr;                             // for GEMMs: the packed weight
  const double* host_step = nullptr;      // host copy of value `step`, if operands are on a device
  comm::Communicator* channel = nullptr;  // for ops that communicate
  int64_t peer = 0;                       // for messages: the other rank's index in the channel
  int64_t layer = 0;

  // Returns the operand of a slot (the first one if the slot has several), or an empty view if the
  // op has none.
  template <InputSlot Slot>
  TensorView in(Slot slot) const {
    const int place = tessera::place_of(*op, slot);
    return place < 0 ? TensorView() : inputs[place];
  }
  template <OutputSlot Slot>
  TensorView out(Slot slot) const {
    const int place = tessera::place_of(*op, slot);
    return place < 0 ? TensorView() : outputs[place];
  }
  template <OutputSlot Slot>
  bool is_fresh(Slot slot) const {
    const int place = tessera::place_of(*op, slot);
    return place >= 0 && fresh[place];
  }

  template <class Args>
  void run(const Args& args) const {
    CHECK(launch.workspace != nullptr || workspace_bytes(args) == 0, "{} has no workspace",
          op->origin);
    kernels->of<Args>().run(launch, args);
  }
  template <class Args>
  int64_t workspace_bytes(const Args& args) const {
    return kernels->of<Args>().workspace_bytes(args, launch.threads);
  }

  // Returns the box of the global value that this rank's operand holds: all of it without a
  // position.
  GlobalBox extents(ValueId v) const;
  // Copies `from` to `to` unless they are the same memory. For kernels that work in place, if the
  // compiler could not let input and output share bytes.
  void copy_unless_shared(const TensorView& from, const TensorView& to) const;
  // Sets the output to zero if it is fresh. For kernels that can only add.
  void clear_if_fresh(size_t output) const;
};

// Binds the op to shapes without memory, to compute its workspace.
BoundOp bound_to_shapes(const Op& op, ValueSpan local_values);

// Returns a dense tensor as [rows, columns]. Its last dimensions must have `columns` elements in
// total.
TensorView as_rows(const TensorView& t, int64_t columns);
TensorView flat(const TensorView& t);
// Returns elements [first, last) of a flat view.
inline TensorView part(const TensorView& t, int64_t first, int64_t last) {
  return {t.as<std::byte>() + first * size_of(t.dtype), t.dtype, {last - first}};
}
// Returns the sequences of a chunk of `whole`; whole_of() is the inverse.
TensorView chunk_of(const TensorView& whole, const Chunk& chunk);
TensorView whole_of(const TensorView& part, const Chunk& chunk);
// Returns the address of element i of a value of doubles, such as `step` or `report`; nullptr if
// the value has no memory.
inline double* number_at(const TensorView& t, int64_t i) {
  return t ? t.as<double>() + i : nullptr;
}

struct Binding {
  // Runs the op. nullptr: the op communicates, or its output is an alias of its input.
  void (*run)(const BoundOp&) = nullptr;
  // Returns the workspace of an op that is bound to shapes, in bytes. nullptr: the op needs none.
  int64_t (*workspace_bytes)(const BoundOp&) = nullptr;
  // For ops that communicate: `start` begins the transfer on the channel, and `finish` does the
  // rest once the transfer is complete (nullptr: nothing to do).
  comm::Ticket (*start)(const BoundOp&) = nullptr;
  void (*finish)(const BoundOp&) = nullptr;
};

// Returns the binding of an op. Every type in OpTypes needs a definition; otherwise linking fails.
template <class A>
const Binding& binding_for();

// Returns the binding that all OnePassUpdates share.
const Binding& one_pass_binding();

const Binding& binding_of(OpKind kind);

// Start and finish the transfer of an op that communicates.
inline comm::Ticket start_transfer(const BoundOp& b) { return binding_of(b.op->kind()).start(b); }
inline void finish_transfer(const BoundOp& b) {
  if (const auto finish = binding_of(b.op->kind()).finish) finish(b);
}

// The workspace and the binding of an op that is a single launch. `kArgs` maps a BoundOp to the
// arguments of the kernel.
template <auto kArgs>
int64_t workspace_of(const BoundOp& b) {
  return b.workspace_bytes(kArgs(b));
}
template <auto kArgs>
constexpr Binding kernel() {
  return {[](const BoundOp& b) { b.run(kArgs(b)); }, workspace_of<kArgs>};
}

}  // namespace tessera::runtime
