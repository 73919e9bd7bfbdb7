// What the passes of compile() work on: a graph, then its expanded form, then the program of a
// stage.
#pragma once

#include <string>
#include <vector>

#include "compile/lower/expand.h"
#include "compile/schedule/stage_share.h"
#include "ir/program.h"

namespace tessera::compile {

// How far a state has come. Each pass belongs to one level; levels follow each other in this order.
enum class Level : uint8_t {
  kModel,           // the forward as the model's family writes it, in f32
  kTyped,           // dtypes follow the precision
  kSharded,         // every value has a sharding, conversions are ops
  kDifferentiated,  // blocks have a backward
  kSegments,        // blocks are segments, values have frames
  kCalls,           // segments are called
  kPlaced,          // frames have offsets
};
constexpr const char* enum_names(Level) {
  return "model|typed|sharded|differentiated|segments|calls|placed";
}

struct State {
  Level level = Level::kModel;
  Graph graph;       // up to Level::kDifferentiated
  StageShare share;  // from the pass assign_stages on; its `stage` is the one whose program is made
  Expanded expanded;  // from Level::kSegments on; its program has calls from Level::kCalls on
};

// What verify() finds true of a state.
enum class Invariant : uint8_t {
  kTypes,       // ops read what exists, outputs have the type and shape of their rule
  kSignatures,  // and on each mesh axis the shardings of an op's operands are a signature of its
                // rule
  kSameBytes,   // the same, with replicated and shared alike
  kCalls,   // calls name frames of the kinds that their segments take; checked after passes that
            // change only calls
  kLayout,  // segments also satisfy kSameBytes; frames and scratch hold their values
  kPlaced,  // and every frame has an offset in the arena
};

// Returns one sentence per fault. Empty: the invariant holds.
std::vector<std::string> verify(const State& state, Invariant invariant);

// Returns the text of the graph, or of the program from Level::kSegments on.
std::string print(const State& state);

}  // namespace tessera::compile
