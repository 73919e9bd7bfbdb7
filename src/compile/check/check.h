// Schedule pass that changes nothing: verifies a step of all ranks before it runs.
//
//   match   on each channel all members call the same operations in the same order: kind, bytes and
//           label agree at each index; every send has its receive; the communication of a call
//           matches what its ops communicate
//   cycle   the calls of all ranks can be put in one order that obeys every queue, `after` and
//           `before_step`, with a message or collective as one event, so there is no deadlock. If
//           transfers are ordered, each transfer of a rank also waits for the one issued before it
//   race    any two calls that use the same bytes, at least one of which writes, are ordered by
//           queues and waits alone
//   value   in a symbolic run of two steps, each read finds the buffer of its layer and
//           micro-batch, complete and not overwritten; sums have one first write, are complete
//           before they are read (also over the mesh axes), and contain every term once;
//           weights that were updated in shards are gathered before they are read in full
//
// If a check has findings, the later ones are skipped, because they would report the same fault
// less clearly. Programs must pass verify() (ir/verify.h) first.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"

namespace tessera::compile {

struct Finding {
  std::string kind;  // match | cycle | race | value
  std::string text;  // names values and calls as the program's text does
  int rank = 0;      // index into the programs passed to check()
  CallId call = kNone;
};

// Expects one program per rank of the mesh, or one per stage if all ranks of a stage run the same
// program. Returns an empty list if there is no fault.
std::vector<Finding> check(const std::vector<const Program*>& ranks);

// Returns what verify() and verify_arena() find in the programs of all stages, and verify_target()
// if the target is given. If they find nothing, returns what check() finds. One sentence per fault.
std::vector<std::string> prove(const std::vector<Program>& stages, const Target* target = nullptr);

}  // namespace tessera::compile
