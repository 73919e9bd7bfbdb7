#include "checkpoint/folders.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/durable.h"
#include "checkpoint/hf_source.h"
#include "checkpoint/index.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// The step that a folder's name says; nothing if it is no decimal number as we write them.
std::optional<int64_t> step_of(std::string_view name) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  if (std::to_string(step) != name) return std::nullopt;
  return step;
}

bool is_part(const FoundCheckpoint& c) { return c.path.extension() == ".part"; }

int64_t bytes_in(const Path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

// Opening a reader checks the index and every size; nothing else is read.
std::string why_broken(const Path& folder) {
  try {
    const CheckpointReader reader(folder);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

FoundCheckpoint look_at(const Path& path, int64_t step) {
  FoundCheckpoint found{path, step, 0, ""};
  try {
    found.bytes = bytes_in(path);
  } catch (const fs::filesystem_error& error) {
    found.broken = fmt::format("{}: {}", path.string(), error.code().message());
    return found;
  }
  found.broken = is_part(found) ? path.string() + ": its save was not finished" : why_broken(path);
  return found;
}

// The first of all `<step>` and `<step>.part` by name alone: looking inside costs more.
std::vector<std::pair<int64_t, Path>> named_like_steps(const Path& dir) {
  std::vector<std::pair<int64_t, Path>> named;
  std::error_code error;
  if (!fs::is_directory(dir, error)) return named;
  auto entries = fs::directory_iterator(dir, error);
  if (error) throw Error("{}: cannot be read: {}", dir.string(), error.message());
  for (const auto& entry : entries) {
    std::string name = entry.path().filename().string();
    for (const std::string_view suffix : {".old.part", ".part"})
      if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    if (const auto step = step_of(name)) named.emplace_back(*step, entry.path());
  }
  std::sort(named.begin(), named.end());
  return named;
}

}  // namespace

std::vector<FoundCheckpoint> list_checkpoints(const Path& checkpoints_dir) {
  std::vector<FoundCheckpoint> found;
  for (const auto& [step, path] : named_like_steps(checkpoints_dir))
    found.push_back(look_at(path, step));
  return found;
}

LatestCheckpoint find_latest(const Path& checkpoints_dir) {
  LatestCheckpoint latest;
  auto named = named_like_steps(checkpoints_dir);
  for (auto at = named.rbegin(); at != named.rend(); ++at) {
    FoundCheckpoint c = look_at(at->second, at->first);
    if (c.broken.empty()) {
      latest.found = std::move(c);
      return latest;
    }
    latest.skipped.push_back(std::move(c));
  }
  return latest;
}

Path resolve_checkpoint(const Path& argument) {
  std::error_code error;
  if (!fs::exists(argument, error))
    throw Error("{}: there is no such checkpoint or run directory", argument.string());
  if (!fs::is_directory(argument, error))
    throw Error(
        "{}: is a file; wanted a checkpoint's folder (with {}), a checkpoints/ folder or a "
        "run directory",
        argument.string(), kIndexFile);
  if (fs::exists(argument / kIndexFile, error) || is_hf_folder(argument)) return argument;
  const Path inside = argument / "checkpoints";
  const Path& dir = fs::is_directory(inside, error) ? inside : argument;
  const LatestCheckpoint latest = find_latest(dir);
  if (latest.found) return latest.found->path;
  std::string reasons;
  for (const FoundCheckpoint& c : latest.skipped) reasons += "\n  " + c.broken;
  throw Error(
      "{}: holds no whole checkpoint; wanted a checkpoint's folder (with {}), a checkpoints/ "
      "folder or a run directory.{}",
      argument.string(), kIndexFile, reasons);
}

std::vector<Path> prune(const Path& checkpoints_dir, const KeepRule& rule) {
  std::vector<Path> removed;
  std::vector<FoundCheckpoint> whole;
  for (FoundCheckpoint& c : list_checkpoints(checkpoints_dir)) {
    if (is_part(c)) {
      remove_folder(c.path);
      removed.push_back(c.path);
    } else if (c.broken.empty()) {
      whole.push_back(std::move(c));
    }
  }
  if (rule.keep <= 0) return removed;
  const auto kept = std::min(static_cast<size_t>(rule.keep), whole.size());
  for (size_t i = 0; i + kept < whole.size(); ++i) {
    const int64_t step = whole[i].step;
    const bool every = rule.keep_every_steps > 0 && step % rule.keep_every_steps == 0;
    const bool named =
        std::find(rule.at_steps.begin(), rule.at_steps.end(), step) != rule.at_steps.end();
    if (every || named || (rule.also && rule.also(step))) continue;
    remove_folder(whole[i].path);
    removed.push_back(whole[i].path);
  }
  return removed;
}

}  // namespace tessera
