// Which global values of the run's state a rank holds: the one function that saving, resuming,
// export and verification ask.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

struct StatePiece {
  std::string name;       // "layer3.attn.qkv.weight", "layer3.attn.qkv.weight|moment1"
  ValueId value = kNone;  // where it lies: the master where there is one, else the weight
  int64_t layer = 0;
  ValueId copy = kNone;             // the weight that is `value` rounded, or kNone
  std::vector<int64_t> begin, end;  // box of the global value
};

// Weights in f32 under their own names, then what the optimizer keeps of each, in the order of the
// program's frames.
std::vector<StatePiece> pieces(const Program& program);

}  // namespace tessera
