// The state that the passes of compile() transform: a graph, then its segments, then the program of
// a stage.
#pragma once

#include <string>
#include <vector>

#include "compile/lower/lower.h"
#include "compile/schedule/stage_layers.h"
#include "ir/program.h"

namespace tessera::compile {

// The progress of a state. Each pass belongs to one level; levels follow each other in this order.
enum class Level : uint8_t {
  kModel,           // the forward as the model family writes it, in f32
  kTyped,           // dtypes follow the precision
  kSharded,         // every value has a sharding, conversions are ops
  kDifferentiated,  // blocks have a backward
  kSegments,        // blocks are segments, values have buffers
  kCalls,           // segments are called
  kPlaced,          // buffers have offsets
};
constexpr const char* enum_names(Level) {
  return "model|typed|sharded|differentiated|segments|calls|placed";
}

struct State {
  Level level = Level::kModel;
  Graph graph;           // up to Level::kDifferentiated
  StageLayers share;     // from the pass assign_stages on; its `stage` is the one whose program is
                         // compiled
  LoweredGraph lowered;  // from Level::kSegments on; its program has calls from Level::kCalls on
};

// The properties of a state that verify() checks.
enum class Invariant : uint8_t {
  kTypes,       // operands exist, outputs have the dtype and shape of their rule
  kSignatures,  // as kTypes, and the shardings of an op's operands on each mesh axis are one of the
                // signatures of its rule
  kSameBytes,   // as kSignatures, but replicated and shared count as equal
  kCalls,   // calls use buffers of the kinds of their segment's parameters; checked after passes
            // that change only calls
  kLayout,  // segments also satisfy kSameBytes; buffers and scratch hold their values
  kPlaced,  // and every buffer has an offset in the arena
};

// Returns one sentence per fault. Empty: the invariant holds.
std::vector<std::string> verify(const State& state, Invariant invariant);

// Returns the text of the graph, or of the program from Level::kSegments on.
std::string print(const State& state);

}  // namespace tessera::compile
