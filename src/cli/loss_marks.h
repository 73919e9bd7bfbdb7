// Shows which tokens of an example have a loss: green on a terminal, in brackets elsewhere or if
// NO_COLOR is set.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/tokenizer.h"

namespace tessera::cli {

// Returns the text of the tokens with marks around those whose flag is 1. Characters that a
// terminal would interpret are escaped.
std::string marked_text(const data::Tokenizer& tokenizer, std::span<const int32_t> ids,
                        std::span<const char> learned);

// Returns a line with the ids and the same marks.
std::string marked_ids(std::span<const int32_t> ids, std::span<const char> learned);

}  // namespace tessera::cli
