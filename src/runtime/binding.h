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
#include "runtime/channels.h"
#include "runtime/member_stretches.h"
#include "tensor/tensor.h"

namespace tessera::runtime {

// An op with its operands bound to memory: the argument of its binding.
struct BoundOp {
  const Op* op = nullptr;
  ValueSpan values;                    // values of the program, for the boxes of operands (extents)
  const Position* position = nullptr;  // nullptr: bound to the shapes of one rank alone
  std::vector<TensorView> inputs,
      outputs;                           // in the order of the op's; without memory: data is null
  std::vector<bool> fresh;               // this output is added to for the first time
  const FlatMembers* members = nullptr;  // for squares and updates
  kernels::Launch launch;
  const kernels::KernelTable* kernels = &kernels::cpu_kernels();
  const kernels::PreparedKernel* prepared = nullptr;  // if the rule of the op asks for one
  void* packed = nullptr;                             // for GEMMs: the packed weight
  const double* host_step = nullptr;  // value `step` for the host, where operands are a device's
  comm::Communicator* channel = nullptr;  // for ops that communicate
  int64_t peer = 0;                       // for messages: the rank in the channel
  int64_t layer = 0;

  // An operand by its slot, the first of them where it has several; empty where the op has none.
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

  // The box of the global value that this rank's operand holds; without a position, all of it.
  Extents extents(ValueId v) const;
  // For kernels that work in place where the compiler could not let input and output share bytes.
  void copy_unless_shared(const TensorView& from, const TensorView& to) const;
  // For kernels that add: an output that is added to for the first time starts from zero.
  void clear_if_fresh(size_t output) const;
};

// Binds the op to shapes alone, as its workspace is asked for.
BoundOp bound_to_shapes(const Op& op, ValueSpan local_values);

// [rows, columns] of a dense tensor whose last dimensions have `columns` elements in all.
TensorView as_rows(const TensorView& t, int64_t columns);
TensorView flat(const TensorView& t);
// Elements [first, last) of a flat view.
inline TensorView part(const TensorView& t, int64_t first, int64_t last) {
  return {t.as<std::byte>() + first * size_of(t.dtype), t.dtype, {last - first}};
}
// The sequences of a chunk, and from these all sequences.
TensorView chunk_of(const TensorView& whole, const Chunk& chunk);
TensorView whole_of(const TensorView& part, const Chunk& chunk);
// A number of a value of doubles, such as `step` and `report`; nullptr where it has no memory.
inline double* number_at(const TensorView& t, int64_t i) {
  return t ? t.as<double>() + i : nullptr;
}

struct Binding {
  // nullptr: the op communicates, or its output is only another name for its input.
  void (*run)(const BoundOp&) = nullptr;
  // Of an op that is bound to shapes alone; nullptr: it needs none.
  int64_t (*workspace_bytes)(const BoundOp&) = nullptr;
  // Of an op that communicates: begins its transfer in the channel, and does what remains to be
  // done when that has completed (nullptr: nothing).
  comm::Ticket (*start)(const BoundOp&) = nullptr;
  void (*finish)(const BoundOp&) = nullptr;
};

// The binding of an op. There is a definition for every type in OpTypes, or the program does not
// link.
template <class A>
const Binding& binding_for();

// The binding of all OnePassUpdates.
const Binding& one_pass_binding();

const Binding& binding_of(OpKind kind);

// Of an op that communicates.
inline comm::Ticket start_transfer(const BoundOp& b) { return binding_of(b.op->kind()).start(b); }
inline void finish_transfer(const BoundOp& b) {
  if (const auto finish = binding_of(b.op->kind()).finish) finish(b);
}

// Of an op that is one launch: `kArgs`, a function of a BoundOp, returns the arguments of the
// kernel.
template <auto kArgs>
int64_t workspace_of(const BoundOp& b) {
  return b.workspace_bytes(kArgs(b));
}
template <auto kArgs>
constexpr Binding kernel() {
  return {[](const BoundOp& b) { b.run(kArgs(b)); }, workspace_of<kArgs>};
}

}  // namespace tessera::runtime
