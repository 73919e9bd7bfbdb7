// The prompts of `tessera generate --prompts FILE`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/tree.h"

namespace tessera::cli {

struct Prompt {
  std::string text;
  Tree rest;          // other members of its JSON object, repeated in the output; null: none
  std::string place;  // "FILE:LINE"; "": it is not of a file
};

// Reads a file with one prompt per line. If the first line is a JSON object, every line is one with
// the prompt in "prompt" or, without that, in "text"; otherwise each line that is not empty is a
// prompt. Throws Error with the line if an object has no prompt, or has a member with the name of
// one that the output adds (`results`).
std::vector<Prompt> read_prompts(const Path& file, std::span<const std::string_view> results);

}  // namespace tessera::cli
