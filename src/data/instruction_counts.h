// How much instruction data a set of files holds, and how much of it was left out, for people and
// for scripts.
#pragma once

#include <cstdint>
#include <string>

#include "base/tree.h"

namespace tessera::data {

struct InstructionCounts {
  int64_t examples = 0;         // that are used
  int64_t rows = 0;             // of an epoch
  int64_t tokens = 0;           // of all examples
  int64_t response_tokens = 0;  // those of them that have a loss
  int64_t padding = 0;          // positions of all rows that hold no token
  int64_t positions = 0;        // of all rows
  int64_t cut = 0;              // examples that were shortened (data.long_examples = truncate)
  int64_t skipped_long = 0;     // examples longer than a row (data.long_examples = skip)
  int64_t skipped_empty = 0;    // examples whose response was cut off completely

  int64_t skipped() const { return skipped_long + skipped_empty; }
};

// Returns the counts as one line of text; every example that is left out is in it, with the reason.
std::string describe(const InstructionCounts& counts);

Tree to_tree(const InstructionCounts& counts);

}  // namespace tessera::data
