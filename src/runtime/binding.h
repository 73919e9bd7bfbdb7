// A binding defines how the runtime runs an op, as a rule (ir/rule.h) defines how the compiler
// treats it: it turns the operands into the arguments of kernels. Bindings are defined in
// runtime/ops.
#pragma once

#include "runtime/bound_op.h"

namespace tessera {

struct Binding {
  // nullptr: the op communicates, or its output is only another name for its input.
  void (*run)(const BoundOp&) = nullptr;
  // Of an op that is bound to shapes alone; nullptr: it needs none.
  int64_t (*workspace_bytes)(const BoundOp&) = nullptr;
  // Of an op that communicates: begins its transfer in the channel, and does what remains to be
  // done when that has completed (nullptr: nothing).
  Ticket (*start)(const BoundOp&) = nullptr;
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
inline Ticket start_transfer(const BoundOp& b) { return binding_of(b.op->kind()).start(b); }
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

}  // namespace tessera
