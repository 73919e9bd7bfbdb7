// Counts of the instruction data in a set of files and of the examples that were skipped, as text
// and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tree.h"

namespace tessera::data {

struct ChatNotes;

struct InstructionCounts {
  int64_t examples = 0;         // examples in use; of pairs of answers both texts
  int64_t pairs = 0;            // pairs of answers in use; 0: each example is of its own
  int64_t rows = 0;             // rows per epoch
  int64_t tokens = 0;           // tokens of all examples
  int64_t response_tokens = 0;  // tokens with a loss
  int64_t padding = 0;          // positions without a token, over all rows
  int64_t positions = 0;        // positions of all rows
  int64_t truncated = 0;        // truncated examples (data.long_examples = truncate)
  int64_t skipped_long = 0;     // examples longer than a row (data.long_examples = skip)
  int64_t skipped_empty = 0;    // examples in which no response is left after truncation

  std::string forms;                  // the forms of chat data; empty: none
  std::vector<std::string> unread;    // keys of the lines that are not read, sorted
  std::vector<std::string> warnings;  // sentences about problems of the data

  // Sets `unread` and `warnings` from what was noted while chat data were encoded.
  void add_notes(const ChatNotes& notes);

  int64_t skipped() const { return skipped_long + skipped_empty; }
};

// Returns the counts as one line of text, with the numbers of skipped examples by reason and the
// keys that are not read, but without the warnings.
std::string describe(const InstructionCounts& counts);
// Returns "2 too long, 1 without response tokens within the row length", or an empty text if none
// was skipped.
std::string skipped_reasons(const InstructionCounts& counts);

Tree to_tree(const InstructionCounts& counts);

}  // namespace tessera::data
