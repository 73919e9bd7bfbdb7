// The passes over frames and calls, in the order of passes.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "compile/context.h"
#include "compile/lower/expand.h"
#include "compile/schedule/stage_share.h"
#include "ir/program.h"

namespace tessera::compile {

// Segments → frames and calls in issue order, for one stage.
//   before  a program with kinds and segments
//   after   every call of the step, with the frames it works on; no offsets but those of state
//
// A training step:
//   clear · pack · the pipeline's forwards and backwards with their messages · squares · clip ·
//   update
// and of the other programs: clear · pack · forward of one micro-batch.
//
// Actions and messages in the one order of all stages (issue_order.h).

// `expanded` gives its program away; its blocks and groups stay.
Program schedule(Expanded& expanded, const Context& context, const StageShare& share);

// Passes for optimizer state in the host's memory (`layout.offload: optimizer`).
//   before  update.layer 0                    reads and writes the state kind layer.moment1
//   after   fetch.layer.moment1 0             layer.moment1.host (state, host) → layer.moment1
//           update.layer 0                    as before
//           offload.layer.moment1 0           layer.moment1 → layer.moment1.host
//
// Master weights and moments move: one number or more per weight. Adafactor's factored moments
// stay on the device; they are a few rows and columns. The kind on the device has a lifetime of a
// few calls, and place() packs it like any other.

// Gives each kind of master weights and moments a state kind on the host, and names it in its
// group in place of the other. The kind on the device ceases to be state.
void move_state(Expanded& expanded);

// Fetches state before each call that uses it, and copies it back after each call that changes it.
// Each such call has a frame on the device of its own.
void copy_state(Program& program);

// Schedule pass: where weights and gradients live, and the calls that gather and reduce them.
//   before  a frame of weights and of gradients for each layer, alive throughout
//   after   by ZeRO stage (Rajbhandari et al. 2020):
//
//   stage   weights frame             gradients frame    reduce
//   0, 1    the whole run             the whole step     once, after the last addition
//   2       the whole run             one micro-batch    after each, added to the rank's part
//   3       one gather a use          one micro-batch    after each, added to the rank's part
//
// Stages 1 and 2 leave only the own part of the weights new, so every program starts with gathers.
// Then what is partial for other reasons is summed: over replicas and tensor ranks (`finish`), over
// the stages that share a weight (`join`), and the report over all ranks.

void zero(Program& program, const Expanded& expanded, const ZeroPlan& plan);

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

struct Offload {
  // Frames of the first so many layers (of a stream, on this stage); 0: nothing is copied.
  int64_t layers = 0;
  bool optimizer = false;  // the optimizer state is on the host: move_state()

  bool none() const { return layers == 0 && !optimizer; }
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

// Schedule pass: communication stands earlier in the issue order, so that it runs beside
// computation.
//   before  ... backward.layer 3 · reduce.layer 3 · gather.layer 2 · backward.layer 2 ...
//   after   ... gather.layer 2 · backward.layer 3 · reduce.layer 3 · backward.layer 2 ...   (calls
//   1)
//
// Gathers for one use, receives and what comes back from the host step back over at most `calls`
// compute calls; never past a call that touches the same frame, nor past another of their own kind
// on their queue. Where transfers are ordered (Program::ordered_transfers) a receive never passes
// another transfer between stages: both ends issue these in one order. Reductions and sends start
// as soon as what they carry is complete: they stand there already.

void overlap(Program& program, int64_t calls);

}  // namespace tessera::compile
