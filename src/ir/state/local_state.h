// The global tensors whose state a rank holds: the only source for saving, resuming, exporting and
// verifying.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// A contiguous part of a flat buffer that is a box of one global value.
struct StateShard {
  std::string name;           // "layer3.attn.qkv.weight", "layer3.attn.qkv.weight|moment1"
  Role role = Role::kWeight;  // kWeight for weights and masters alike, which share one name
  BufferKindId kind = kNone;  // the buffer that contains it …
  int64_t layer = kNone;      // … of this layer
  int64_t first = 0;          // its first element in that buffer
  DType dtype = DType::kF32;
  BufferKindId scales = kNone;      // the scales of moments in 8 bits, one per block; dtype is then
                                    // u8, and checkpoints have f32
  Shape shape;                      // shape of the global value
  std::vector<int64_t> begin, end;  // box of the global value
  ValueId weight = kNone;           // the weight that it belongs to: gives initial values
  bool owned = false;               // this rank saves it
  BufferKindId copy = kNone;        // the buffer with the same elements, rounded, or kNone …
  int64_t copy_first = 0;           // … from this element on
};

// Returns the piece of the weight that a piece of optimizer state belongs to.
StateShard weight_piece(StateShard state);

// Returns the state of the rank at `at`: weights under their own names, in f32 if there are
// masters, then the optimizer state of each, in the order of the program's buffers. Each element of
// the state is owned by exactly one rank.
std::vector<StateShard> local_state(const Program& program, const Coordinates& at = {});

// Returns the gradient sums of the step, under the names of their weights; valid after a run.
std::vector<StateShard> local_gradients(const Program& program, const Coordinates& at = {});

}  // namespace tessera
