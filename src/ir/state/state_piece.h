// A part of the state of a run that one rank holds.
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
  FrameKindId kind = kNone;   // the frame it lies in …
  int64_t layer = kNone;      // … of this layer
  int64_t first = 0;          // its first element in that frame
  DType dtype = DType::kF32;
  Shape shape;                      // of the global value
  std::vector<int64_t> begin, end;  // box of the global value
  ValueId weight = kNone;           // whose it is: initial values
  bool owned = false;               // this rank is the one that saves it
  FrameKindId copy = kNone;         // where the same elements stand rounded, or kNone …
  int64_t copy_first = 0;           // … from this element on
};

}  // namespace tessera
