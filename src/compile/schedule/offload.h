// Schedule pass: what a forward leaves to its backward waits in the host's memory.
//   before  forward.layer 0 · forward.layer 1 · … · backward.layer 1 · backward.layer 0
//   after   forward.layer 0 · offload.layer.saved 0 · forward.layer 1 · …
//           · backward.layer 1 · fetch.layer.saved 0 · backward.layer 0
//
// A frame of saved values or of the stream that no call touches for long is copied out, on a queue
// of its own, behind its last use before that time, and copied back, on another, into a frame of
// its own ahead of the next: two lives of one kind, between which its bytes are free. Which times
// are long enough follows from the schedule alone, so this knows nothing of forwards, backwards and
// pipelines. What the next call but a few reads, as of the last layers, stays.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "compile/lower/expanded.h"

namespace tessera {

struct Offload {
  // Frames of the first so many layers (of a stream, on this stage); 0: nothing is copied.
  int64_t layers = 0;
  bool optimizer = false;  // the optimizer state is on the host: host_state.h
};
constexpr int64_t kAllLayers = std::numeric_limits<int64_t>::max();

constexpr const char* kOffloadChoices =
    "none, activations, activations:N (of the first N layers of each stage), optimizer, or "
    "activations+optimizer";
// Parses `layout.offload`: none, or activations, activations:N and optimizer, joined by '+'. Throws
// Error for anything else.
Offload parse_offload(const std::string& text);

// `overlap`: compute calls by which the overlap pass will move fetches ahead.
void offload(Expanded& expanded, const Offload& what, int64_t overlap);

}  // namespace tessera
