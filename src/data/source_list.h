// Which files a list of files and folders stands for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// The files that inputs stand for, in order: a file and "-" stand for themselves, a folder for all
// files below it whose names end in .txt, .text, .md, .jsonl, .ndjson or .json, also with .gz or
// .zst behind, in the order of their paths' bytes; hidden ones are left out. Throws Error for what
// is not there and for a folder without such a file.
struct SourceList {
  std::vector<std::string> files;
  int64_t skipped = 0;                // files in folders that have other names
  std::vector<std::string> left_out;  // the first kShownLeftOut of these
};
constexpr size_t kShownLeftOut = 5;
SourceList list_sources(const std::vector<std::string>& inputs);

// Throws Error where `out` cannot be written for what it is: a folder, below a file, or one of the
// sources. For writers that read first: what took long is not lost at its end.
void check_output(const std::filesystem::path& out, const SourceList& sources);

// Throws Error if `out` exists and `replace` is false. The message names --force.
void refuse_existing(const std::filesystem::path& out, bool replace);

// A name without .gz or .zst at its end.
std::string_view without_compression(std::string_view name);

// Whether a file of that name holds JSON lines.
bool named_json_lines(std::string_view name);

}  // namespace tessera::data
