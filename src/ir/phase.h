// What the segments of a program are for, and their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// What a segment is for.
enum class Phase : uint8_t {
  kForward,         // saves what the backward reads
  kForwardNoSave,   // the same, but saves nothing
  kRecompute,       // saves what kForwardNoSave did not, right before the backward
  kBackward,        // all gradients, or where there is a kWeightBackward, those of inputs
  kWeightBackward,  // the part of a backward that only gradients of weights need
  kJoint,           // forward and backward of a block that ends in a loss
  kPack,            // weights, into the layout that the GEMM library prefers
  kClear,           // the report
  kGather,          // weights, over the ranks that share them
  kReduce,          // gradients, over the ranks that share the weights
  kFinish,          // gradients, over all other ranks of the stage
  kJoin,            // gradients, over the stages that hold the weights
  kSumReport,       // the report, over all ranks
  kSquares,         // squares of gradients, for their norm
  kClip,            // sets the scale of the gradients from their norm
  kMeasure,         // Adafactor: sums of squared gradients over rows and columns …
  kSumMeasure,      // … over the ranks of the stage
  kFactor,          // Adafactor: the factored second moments, and squares of the update …
  kSumFactor,       // … over the ranks of the stage
  kUpdate,          // weights and the optimizer's state
  kSendForward,     // hidden states, to the next stage
  kReceiveForward,
  kSendBackward,  // their gradients, to the previous stage
  kReceiveBackward,
  kKeepSent,     // keeps this rank's share of what was sent
  kReleaseSent,  // ends the lifetime of what was kept
  kOffload,      // saved values, to the memory of the host
  kFetch,        // and back
};
constexpr size_t count_of(Phase) { return static_cast<size_t>(Phase::kFetch) + 1; }

// The word of a phase in names; empty for kJoint.
std::string_view name_of(Phase p);

// The name of a segment: the word of its phase (ir/names.h), a dot, and its subject, as in
// "forward.layer" or "sum.report". A joint segment is named after its block alone: "head".
std::string segment_name(Phase phase, const std::string& subject);

}  // namespace tessera
