// Expands a list of files and folders into a list of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// The files of a list of inputs, in order.
struct SourceList {
  std::vector<std::string> files;
  int64_t skipped = 0;                // number of files in folders that were skipped
  std::vector<std::string> left_out;  // the first kShownLeftOut of these
};
constexpr size_t kShownLeftOut = 5;

// Expands the inputs: a file and "-" (standard input) stand for themselves. A folder stands for all
// files below it whose names end in .txt, .text, .md, .jsonl, .ndjson or .json, also followed by
// .gz or .zst, or in .parquet, sorted by the bytes of their paths; hidden files are ignored. Throws
// Error for an input that does not exist and for a folder without such a file.
SourceList list_sources(const std::vector<std::string>& inputs);

// Throws Error if `out` cannot be written because it is a folder, is below a file, or is one of the
// sources. Called before the sources are read, so that no work is lost.
void check_output(const std::filesystem::path& out, const SourceList& sources);

// Throws Error if `out` is a folder, device or pipe, or if it is in a folder that does not
// exist. Called before long work whose result goes there.
void check_folder_of(const std::filesystem::path& out);

// Throws Error if `out` exists and `replace` is false. The message names --force.
void refuse_existing(const std::filesystem::path& out, bool replace);

// Returns a name without .gz or .zst at its end.
std::string_view without_compression(std::string_view name);

// Returns true if a file of this name contains JSON lines.
bool named_json_lines(std::string_view name);

}  // namespace tessera::data
