// Expands files and folders to a list of input files, in an order that does not depend on the file
// system: the paths in each folder are sorted by their bytes.
#include "data/source_list.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/parquet_file.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

bool named_text(std::string_view name) {
  name = without_compression(name);
  return name.ends_with(".txt") || name.ends_with(".text") || name.ends_with(".md");
}

// Lists the text files in a folder and its subfolders, sorted by path, since the order of directory
// entries differs between file systems and a dataset must not depend on it.
void list_folder(const std::string& folder, SourceList& list) {
  std::vector<std::string> found, left_out;
  try {
    for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
      const std::string name = it->path().filename().string();
      if (name.starts_with('.')) {
        // Hidden folders, such as .git, are not entered.
        if (it->is_directory()) it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        if (named_json_lines(name) || named_text(name) || named_parquet(name)) {
          found.push_back(it->path().string());
        } else {
          ++list.skipped;
          left_out.push_back(it->path().string());
        }
      }
    }
  } catch (const fs::filesystem_error& e) {
    throw Error("{}: the folder cannot be read: {}", folder, e.code().message());
  }
  if (found.empty()) {
    throw Error(
        "{}: no text in this folder, expected files whose names end in .txt, .text, .md, "
        ".jsonl, .ndjson or .json, also followed by .gz or .zst, or in .parquet. Give other files "
        "by name",
        folder);
  }
  std::sort(found.begin(), found.end());
  list.files.insert(list.files.end(), found.begin(), found.end());
  std::sort(left_out.begin(), left_out.end());
  for (const std::string& name : left_out)
    if (list.left_out.size() < kShownLeftOut) list.left_out.push_back(name);
}

// Returns the nearest existing folder above `path`.
fs::path above(const fs::path& path) {
  fs::path folder = fs::absolute(path).parent_path();
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

}  // namespace

void check_output(const fs::path& out, const SourceList& sources) {
  std::error_code error;
  if (fs::is_directory(out, error)) throw Error("{}: is a folder, expected a file", out.string());
  if (const fs::path folder = above(out); !fs::is_directory(folder, error))
    throw Error("{}: cannot be created, since {} is a file, expected a folder. Choose another path",
                out.string(), folder.string());
  for (const std::string& file : sources.files)
    // Compared by device and inode, so that links and other spellings of the path are detected.
    if (file != "-" && fs::equivalent(file, out, error))
      throw Error("{}: is an input, but the output {} would replace it. Choose another output path",
                  file, out.string());
}

void check_folder_of(const fs::path& out) {
  std::error_code error;
  const fs::path folder = fs::absolute(out).parent_path();
  if (!fs::is_directory(folder, error))
    throw Error("{}: there is no folder {}. Create it first.", out.string(), folder.string());
  if (fs::is_directory(out, error))
    throw Error("{}: this is a folder. Name a file in it.", out.string());
  if (fs::exists(out, error) && !fs::is_regular_file(out, error))
    throw Error("{}: is a device or a pipe, expected a file. Choose another path.", out.string());
}

void refuse_existing(const fs::path& out, bool replace) {
  std::error_code error;
  if (!replace && fs::is_regular_file(out, error))
    throw Error("{}: exists already. Choose another path, or give --force to replace it.",
                out.string());
}

std::string_view without_compression(std::string_view name) {
  for (const std::string_view suffix : {".gz", ".zst"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

bool named_json_lines(std::string_view name) {
  name = without_compression(name);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

SourceList list_sources(const std::vector<std::string>& inputs) {
  SourceList list;
  for (const std::string& input : inputs) {
    std::error_code error;
    if (input != "-" && fs::is_directory(input, error)) {
      list_folder(input, list);
    } else if (input != "-" && !fs::exists(input, error)) {
      throw Error("{}: there is no such file or folder", input);
    } else {
      list.files.push_back(input);
    }
  }
  if (std::count(list.files.begin(), list.files.end(), "-") > 1) {
    throw Error("standard input ('-') is given more than once, but can be read only once");
  }
  return list;
}

}  // namespace tessera::data
