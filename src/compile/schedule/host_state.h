// Passes for optimizer state in the host's memory (`layout.offload: optimizer`).
//   before  update.layer 0                    reads and writes the state kind layer.moment1
//   after   fetch.layer.moment1 0             layer.moment1.host (state, host) → layer.moment1
//           update.layer 0                    as before
//           offload.layer.moment1 0           layer.moment1 → layer.moment1.host
//
// Master weights and moments move: one number or more per weight. Adafactor's factored moments
// stay on the device; they are a few rows and columns. The kind on the device has a lifetime of a
// few calls, and place() packs it like any other.
#pragma once

#include "compile/lower/expanded.h"

namespace tessera {

// Gives each kind of master weights and moments a state kind on the host, and names it in its
// group in place of the other. The kind on the device ceases to be state.
void move_state(Expanded& expanded);

// Fetches state before each call that uses it, and copies it back after each call that changes it.
// Each such call has a frame on the device of its own.
void copy_state(Program& program);

}  // namespace tessera
