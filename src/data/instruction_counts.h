// Counts of the instruction data in a set of files and of the examples that were skipped, as text
// and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "base/tree.h"

namespace tessera::data {

struct InstructionCounts {
  int64_t examples = 0;         // examples in use
  int64_t rows = 0;             // rows per epoch
  int64_t tokens = 0;           // tokens of all examples
  int64_t response_tokens = 0;  // tokens with a loss
  int64_t padding = 0;          // positions without a token, over all rows
  int64_t positions = 0;        // positions of all rows
  int64_t cut = 0;              // truncated examples (data.long_examples = truncate)
  int64_t skipped_long = 0;     // examples longer than a row (data.long_examples = skip)
  int64_t skipped_empty = 0;    // examples in which no response is left after truncation

  std::string forms;  // the forms of chat data; empty: none

  int64_t skipped() const { return skipped_long + skipped_empty; }
};

// Returns the counts as one line of text, with the numbers of skipped examples by reason.
std::string describe(const InstructionCounts& counts);
// Returns "2 too long, 1 without a response …", or an empty text if none was skipped.
std::string skipped_reasons(const InstructionCounts& counts);

Tree to_tree(const InstructionCounts& counts);

}  // namespace tessera::data
