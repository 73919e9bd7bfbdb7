// Schedule pass that changes nothing: proves a step of all ranks before it runs.
//
//   match   on each channel all members call the same operations in the same order: kind, bytes and
//           label agree at each index; every send has its receive; what a call says of its
//           communication is what its ops do
//   cycle   the calls of all ranks can be put in one order that obeys every queue, `after` and
//           `before_step`, with a message or collective as one event: nothing can hang. Where
//           transfers are ordered, each of a rank also waits for the one issued before it
//   race    any two calls that touch the same bytes, one of them writing, are ordered by queues and
//           waits alone
//   value   a symbolic run of two steps: each read finds the frame that it means, whole and not
//           overwritten, of its layer and micro-batch; sums start fresh once, are complete before
//           they are read (over the axes, too), and every term is there once; what was updated in
//           part is gathered before the whole is read
//
// A later part is skipped where an earlier one found something, since it would repeat it in worse
// words. Programs must be verified first (ir/verify.h).
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"

namespace tessera::compile {

struct Finding {
  std::string kind;  // match | cycle | race | value
  std::string text;  // in the names of the model
  int rank = 0;      // index into what was given to check()
  CallId call = kNone;
};

// One program for each rank of the mesh, or one for each stage whose ranks all run it. Empty:
// nothing wrong.
std::vector<Finding> check(const std::vector<const Program*>& ranks);

// Returns what verify() and verify_arena() find in the programs of all stages, and verify_target()
// if the target is known; if that is nothing, what check() finds. One sentence per fault.
std::vector<std::string> prove(const std::vector<Program>& stages, const Target* target = nullptr);

}  // namespace tessera::compile
