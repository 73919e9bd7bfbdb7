// The passes over buffers and calls, in the order of passes.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "compile/context.h"
#include "compile/lower/lower.h"
#include "compile/schedule/stage_layers.h"
#include "ir/program.h"

namespace tessera::compile {

// ---- Creates buffers, and calls in issue order, from the segments, for one stage.
//   before  a program with buffer kinds and segments
//   after   every call of the step, with its buffers; only state has offsets
//
// A training step:
//   clear · pack · the pipeline's forwards and backwards with their messages · squares · clip ·
//   update
// Other programs: clear · pack · forward of one micro-batch.
//
// Actions and messages are issued in one order of all stages (issue_order.h).

// Moves the program out of `lowered`; its blocks and groups stay.
Program schedule(LoweredGraph& lowered, const Context& context, const StageLayers& share);

// ---- Passes for optimizer state in the host's memory (`layout.offload: optimizer`).
//   before  update.layer 0                    reads and writes the state kind layer.moment1
//   after   fetch.layer.moment1 0             layer.moment1.host (state, host) → layer.moment1
//           update.layer 0                    as before
//           offload.layer.moment1 0           layer.moment1 → layer.moment1.host
//
// Master weights and moments move: one number or more per weight. Adafactor's factored moments
// stay on the device; they are a few rows and columns. The kind on the device has a lifetime of a
// few calls, and assign_buffers() packs it like any other.

// Gives each kind of master weights and moments a state kind on the host, which replaces it in its
// group. The kind on the device is no longer state.
void move_state(LoweredGraph& lowered);

// Fetches state before each call that uses it, and copies it back after each call that changes it.
// Each such call has its own buffer on the device.
void copy_state(Program& program);

// Schedule pass: creates the buffers of weights and gradients, and the calls that gather and reduce
// them.
//   before  one buffer of weights and one of gradients per layer, for the whole step
//   after   by ZeRO stage (Rajbhandari et al. 2020):
//
//   stage   weight buffers            gradient buffers   reduce
//   0, 1    the whole run             the whole step     once, after the last addition
//   2       the whole run             one micro-batch    after each, added to the rank's shard
//   3       one gather per use        one micro-batch    after each, added to the rank's shard
//
// Stages 1 and 2 update only this rank's shard of the weights, so every program starts with
// gathers. Then gradients that are partial for other reasons are summed: over replicas and tensor
// ranks (`finish`), and over the stages that share a weight (`join`). The report is summed over all
// ranks.
void zero(Program& program, const LoweredGraph& lowered, const ZeroPlan& plan);

// ---- Schedule pass: keeps saved activations in the host's memory until their backward.
//   before  forward.layer 0 · forward.layer 1 · … · backward.layer 1 · backward.layer 0
//   after   forward.layer 0 · offload.layer.saved 0 · forward.layer 1 · …
//           · backward.layer 1 · fetch.layer.saved 0 · backward.layer 0
//
// A buffer of saved values or hidden states that is unused for a long time is copied to the host
// after the last use before that time, and copied back into a new buffer before the next use. Each
// direction has its own queue. Between the copies the bytes are free. Whether an interval is long
// enough follows from the schedule alone, so the pass does not depend on forwards, backwards and
// pipelines. Buffers that are used again after a few calls, as in the last layers, stay.

struct Offload {
  // The buffers of the first `layers` layers of each stream on this stage; 0: nothing is copied.
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
void offload(LoweredGraph& lowered, const Offload& what, int64_t overlap);

// Schedule pass: moves communication earlier in the issue order, so that it overlaps with
// computation.
//   before  ... backward.layer 3 · reduce.layer 3 · gather.layer 2 · backward.layer 2 ...
//   after   ... gather.layer 2 · backward.layer 3 · reduce.layer 3 · backward.layer 2 ...
//           with calls = 1
//
// Gathers for one use, receives and copies from the host move back over at most `calls` compute
// calls, but never past a call that uses the same buffer, nor past another call of their kind on
// their queue. If transfers are ordered (Program::ordered_transfers), a receive never passes
// another transfer between stages, because both ends issue these in one order. Reductions and sends
// do not move: they are already issued right after their input is complete.
void overlap(Program& program, int64_t calls);

}  // namespace tessera::compile
