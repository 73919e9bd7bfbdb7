// The purposes of a program's segments, and their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// The purpose of a segment.
enum class Phase : uint8_t {
  kForward,         // saves what the backward reads
  kForwardNoSave,   // the same, but saves nothing
  kRecompute,       // saves what kForwardNoSave did not, right before the backward
  kBackward,        // all gradients; if there is a kWeightBackward, only those of inputs
  kWeightBackward,  // the part of a backward that only weight gradients need
  kJoint,           // forward and backward of a block that ends in a loss
  kPack,            // weights, into the memory layout that the GEMM library needs
  kClear,           // the report
  kGather,          // weights, over the ranks that share them
  kReduce,          // gradients, over the ranks that share the weights
  kFinish,          // gradients, over all other ranks of the stage
  kJoin,            // gradients, over the stages that hold the weights
  kSumReport,       // the report, over all ranks
  kSquares,         // squares of gradients, for their norm
  kClip,            // sets the scale of the gradients from their norm
  kMaxScores,       // the largest attention scores, over the ranks that have other tokens or heads
  kMeasure,         // Adafactor: sums of squared gradients over rows and columns …
  kSumMeasure,      // … over the ranks of the stage
  kFactor,          // Adafactor: the factored second moments, and squares of the update …
  kSumFactor,       // … over the ranks of the stage
  kDirection,       // Muon: the directions of this rank's shard …
  kSumDirection,    // … summed over the ranks that divide the matrices …
  kOrthogonalize,   // … which Newton–Schulz iterations make orthogonal
  kUpdate,          // weights and the optimizer's state
  kSendForward,     // hidden states, to the next stage
  kReceiveForward,
  kSendBackward,  // their gradients, to the previous stage
  kReceiveBackward,
  kKeepSent,     // keeps this rank's shard of what was sent
  kReleaseSent,  // ends the lifetime of what was kept
  kOffload,      // saved values, to the memory of the host
  kFetch,        // and back
};
constexpr size_t count_of(Phase) { return static_cast<size_t>(Phase::kFetch) + 1; }

// Returns the name of a phase; empty for kJoint.
std::string_view name_of(Phase p);

// Returns the name of a segment: the name of its phase, a dot, and its subject, as in
// "forward.layer" or "sum.report". A joint segment is named after its block alone: "head".
std::string segment_name(Phase phase, const std::string& subject);

}  // namespace tessera
