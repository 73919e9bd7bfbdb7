// An op with its operands bound to memory, as its binding (runtime/binding.h) takes it.
#pragma once

#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "ir/operands.h"
#include "ir/state/member_ranges.h"
#include "kernels/kernels.h"
#include "kernels/prepared.h"
#include "runtime/channels.h"
#include "runtime/member_stretches.h"
#include "tensor/tensor.h"

namespace tessera {

struct BoundOp {
  const Op* op = nullptr;
  ValueSpan values;                    // of the program, for the boxes of operands (extents)
  const Position* position = nullptr;  // nullptr: bound to the shapes of one rank alone
  std::vector<TensorView> inputs,
      outputs;                           // in the order of the op's; without memory: data is null
  std::vector<bool> fresh;               // this output is added to for the first time
  const FlatMembers* members = nullptr;  // of squares and updates
  kernels::Launch launch;
  const kernels::KernelTable* kernels = &kernels::cpu_kernels();
  const kernels::PreparedKernel* prepared = nullptr;  // of an op whose rule asks for one
  void* packed = nullptr;                             // of a product: the packed weight
  const double* host_step = nullptr;  // value `step` for the host, where operands are a device's
  Communicator* channel = nullptr;    // of an op that communicates
  int64_t peer = 0;                   // of a message: its place in the channel
  int64_t layer = 0;

  // An operand by its slot, the first of them where it has several; empty where the op has none.
  template <InputSlot Slot>
  TensorView in(Slot slot) const {
    const int place = place_of(*op, slot);
    return place < 0 ? TensorView() : inputs[place];
  }
  template <OutputSlot Slot>
  TensorView out(Slot slot) const {
    const int place = place_of(*op, slot);
    return place < 0 ? TensorView() : outputs[place];
  }
  template <OutputSlot Slot>
  bool is_fresh(Slot slot) const {
    const int place = place_of(*op, slot);
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

}  // namespace tessera
