// The prompts of `tessera generate --prompts FILE`.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/tree.h"

namespace tessera::cli {

struct Prompt {
  std::string text;
  Tree rest;  // other members of its JSON object, repeated in the output; null for a line of text
};

// Reads a file with one prompt per line. If the first line is a JSON object, every line is one with
// the prompt in "prompt" or "text"; otherwise each line that is not empty is a prompt. Throws Error
// with the line if an object has no prompt.
std::vector<Prompt> read_prompts(const Path& file);

}  // namespace tessera::cli
