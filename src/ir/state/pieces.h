// Which global values of the run's state a rank holds: the one function that saving, resuming,
// export and verification ask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// A contiguous part of a flat frame that is a box of one global value.
struct StatePiece {
  std::string name;           // "layer3.attn.qkv.weight", "layer3.attn.qkv.weight|moment1"
  Role role = Role::kWeight;  // kWeight for weights and masters alike: under one name
  FrameKindId kind = kNone;   // the buffer that contains it …
  int64_t layer = kNone;      // … of this layer
  int64_t first = 0;          // its first element in that frame
  DType dtype = DType::kF32;
  Shape shape;                      // shape of the global value
  std::vector<int64_t> begin, end;  // box of the global value
  ValueId weight = kNone;           // whose it is: initial values
  bool owned = false;               // this rank is the one that saves it
  FrameKindId copy = kNone;         // the buffer with the same elements, rounded, or kNone …
  int64_t copy_first = 0;           // … from this element on
};

// What the rank at `at` holds: weights under their own names, in f32 where there are masters, then
// what the optimizer keeps of each, in the order of the program's frames. Each element of the state
// is owned by one rank.
std::vector<StatePiece> pieces(const Program& program, const Coordinates& at = {});

// The sums of gradients over the step, under the names of their weights; valid after a run.
std::vector<StatePiece> gradient_pieces(const Program& program, const Coordinates& at = {});

}  // namespace tessera
