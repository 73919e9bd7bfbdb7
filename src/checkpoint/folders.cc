// Classifies the entries of a checkpoints folder by their names, finds the latest intact
// checkpoint, and prunes old ones.
//
// Names show the state: <step> is a finished save, <step>.…part is a save that is in progress or
// was left by a killed process, and <step>.damaged is a save that an earlier start rejected. Only
// entries that a save can have made are ever removed, because users keep other files in this
// folder.
#include "checkpoint/folders.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "base/temporary.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/durable.h"
#include "checkpoint/hf_source.h"
#include "checkpoint/index.h"
#include "checkpoint/peft.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

// Returns the step in a folder's name; nullopt unless it is a decimal number without leading zeros,
// as saves write it.
std::optional<int64_t> step_of(std::string_view name) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  if (std::to_string(step) != name) return std::nullopt;
  return step;
}

constexpr std::string_view kDamaged = ".damaged", kPart = ".part";

// Returns true for the names of files that a save writes, also while they are written.
bool is_saved_file(std::string name) {
  if (const auto t = parse_temporary(name)) name = t->base;
  if (name.ends_with(kPart)) name.resize(name.size() - kPart.size());
  if (name == kIndexFile || name == kTokenizerFile || name == kSentencePieceFile) return true;
  // "pieces-RANK.bin" and "pieces-RANK.json".
  const size_t dash = name.find('-'), dot = name.rfind('.');
  if (dash == name.npos || dot == name.npos || dot < dash) return false;
  const auto rank = step_of(std::string_view(name).substr(dash + 1, dot - dash - 1));
  if (!rank || *rank > std::numeric_limits<int>::max()) return false;
  return name == pieces_file(*rank) || name == piece_list_file(*rank);
}

// Returns true if `path` is a folder that has files, all of which are files of a save.
bool holds_a_save(const Path& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return false;
  int64_t files = 0;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (!is_saved_file(at->path().filename().string())) return false;
    ++files;
  }
  return !error && files > 0;
}

// Returns the step of an unfinished save; nullopt if a user may have made `path`. The names of
// version 0.1, <step>.part and <step>.old.part, could also be a user's, so the contents decide.
std::optional<int64_t> step_of_unfinished(const Path& path) {
  std::string base = path.filename().string();
  const auto temporary = parse_temporary(base);
  if (temporary) base = temporary->base;
  for (const std::string_view suffix : {std::string_view(".old.part"), kPart})
    if (base.ends_with(suffix)) base.resize(base.size() - suffix.size());
  const auto step = step_of(base);
  return step && (temporary || holds_a_save(path)) ? step : std::nullopt;
}

int64_t bytes_in(const Path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code other;
    if (at->is_regular_file(other)) bytes += at->file_size(other);
  }
  const bool absent = error == std::errc::not_a_directory ||
                      error == std::errc::no_such_file_or_directory;  // a dangling link
  if (error && !absent) throw FileError(folder, "cannot be read", error.value());
  return bytes;
}

// Examines one entry. Opening a reader checks the index and the size of every file; nothing else is
// read.
FoundCheckpoint look_at(const CheckpointNames::Entry& entry) {
  FoundCheckpoint found{entry.path, entry.step, 0, ""};
  try {
    found.bytes = bytes_in(entry.path);
    const CheckpointReader reader(entry.path);
  } catch (const DamagedCheckpoint& error) {
    found.broken = error.what();
  } catch (const OtherFormat& error) {
    found.broken = error.what();
  }
  return found;
}

bool is_whole(const CheckpointNames::Entry& entry, SeenCheckpoints* seen) {
  // A complete checkpoint does not change, so each one is examined once per run.
  if (seen != nullptr)
    if (const auto at = seen->find(entry.path); at != seen->end()) return at->second;
  bool whole = false;
  try {
    whole = look_at(entry).broken.empty();
  } catch (const Error&) {  // an unreadable checkpoint is not removed
  }
  if (seen != nullptr) seen->emplace(entry.path, whole);
  return whole;
}

// Removes unfinished saves and adds their paths to `removed`. `fresh`: a checkpoint that was just
// written, whose times show the clock of the file system.
void remove_unfinished(const CheckpointNames& names, const Path& fresh,
                       std::vector<Path>& removed) {
  for (const auto& [step, path] : names.unfinished) {
    const std::optional<TemporaryName> t = parse_temporary(path.filename().string());
    // A save of another process that is still running is kept.
    if (t && !is_abandoned(path, t->maker, fresh)) continue;
    remove_folder(path);
    removed.push_back(path);
  }
}

// Returns the finished checkpoints by priority: those that this process saved, latest first, then
// the others, newest first.
std::vector<CheckpointNames::Entry> in_order_of_worth(const CheckpointNames& names,
                                                      const KeepRule& rule) {
  std::vector<CheckpointNames::Entry> own, others;
  for (auto step = rule.saved.rbegin(); step != rule.saved.rend(); ++step)
    for (const auto& e : names.finished)
      if (e.step == *step) own.push_back(e);
  for (auto e = names.finished.rbegin(); e != names.finished.rend(); ++e) {
    const bool saved = std::find(rule.saved.begin(), rule.saved.end(), e->step) != rule.saved.end();
    // A checkpoint that is newer than the latest save of this process belongs to another branch of
    // the run, such as one that was resumed from an earlier step. It neither counts nor is removed.
    const bool newer = !rule.saved.empty() && e->step > rule.saved.back();
    if (!saved && !newer) others.push_back(*e);
  }
  own.insert(own.end(), others.begin(), others.end());
  return own;
}

}  // namespace

CheckpointNames names_in(const Path& dir) {
  CheckpointNames names;
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (status.type() == fs::file_type::not_found) return names;
  if (error) throw FileError(dir, "cannot be read", error.value());
  if (!fs::is_directory(status)) return names;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    const Path& path = at->path();
    const std::string name = path.filename().string();
    if (const auto step = step_of(name)) {
      names.finished.push_back({*step, path});
      continue;
    }
    // Also "<step>.damaged-2" and so on.
    const size_t damaged = name.find(kDamaged);
    if (damaged != name.npos) {
      if (const auto step = step_of(name.substr(0, damaged)))
        names.damaged.push_back({*step, path});
      continue;
    }
    if (const auto step = step_of_unfinished(path)) names.unfinished.push_back({*step, path});
  }
  if (error) throw FileError(dir, "cannot be read", error.value());
  const auto by_step = [](const auto& a, const auto& b) {
    return std::tie(a.step, a.path) < std::tie(b.step, b.path);
  };
  for (auto* list : {&names.finished, &names.unfinished, &names.damaged})
    std::sort(list->begin(), list->end(), by_step);
  return names;
}

std::vector<FoundCheckpoint> list_checkpoints(const Path& checkpoints_dir) {
  const CheckpointNames names = names_in(checkpoints_dir);
  std::vector<FoundCheckpoint> found;
  const auto add = [&](const CheckpointNames::Entry& e, const char* broken) {
    FoundCheckpoint c{e.path, e.step, 0, ""};
    try {
      c = look_at(e);
      if (broken != nullptr) c.broken = fmt::format("{}: {}", e.path.string(), broken);
    } catch (const Error& error) {
      c.broken = error.what();
    }
    found.push_back(std::move(c));
  };
  for (const auto& e : names.finished) add(e, nullptr);
  for (const auto& e : names.unfinished) add(e, "its save was not finished");
  for (const auto& e : names.damaged) add(e, "an earlier start found it damaged and renamed it");
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

LatestCheckpoint find_latest(const Path& checkpoints_dir) {
  LatestCheckpoint latest;
  const CheckpointNames names = names_in(checkpoints_dir);
  // Newest first, until one is intact.
  for (auto at = names.finished.rbegin(); at != names.finished.rend(); ++at) {
    FoundCheckpoint c = look_at(*at);
    if (c.broken.empty()) {
      latest.found = std::move(c);
      return latest;
    }
    // Damaged ones are skipped and reported. A system error in look_at() is thrown, since the
    // newest checkpoint may be intact.
    latest.skipped.push_back(std::move(c));
  }
  return latest;
}

namespace {

// Returns true if the run directory is a trial of a sweep: SWEEP/trials/NUMBER.
bool is_trial(const Path& run) {
  std::error_code error;
  const Path folder = fs::canonical(run, error);
  return !error && folder.parent_path().filename() == "trials" &&
         fs::exists(folder.parent_path().parent_path() / "sweep.json", error);
}

}  // namespace

std::vector<Path> checkpoints_of(const Path& argument) {
  std::error_code error;
  const fs::file_status status = fs::status(argument, error);
  if (status.type() == fs::file_type::not_found)
    throw Error("{}: there is no such checkpoint or run directory", argument.string());
  if (error) throw FileError(argument, "cannot be read", error.value());
  if (!fs::is_directory(status))
    throw Error(
        "{}: is a file, expected a checkpoint folder (with {}), a checkpoints/ folder or a "
        "run directory",
        argument.string(), kIndexFile);
  const bool is_one = fs::exists(argument / kIndexFile, error);
  if (error) throw FileError(argument / kIndexFile, "cannot be read", error.value());
  if (is_one || is_hf_folder(argument)) return {argument};
  const Path inside = argument / "checkpoints";
  std::vector<Path> found;
  const CheckpointNames names = names_in(fs::is_directory(inside, error) ? inside : argument);
  // names.finished is in ascending order; here the newest comes first.
  for (const auto& e : names.finished) found.insert(found.begin(), e.path);
  if (found.empty() && !names.damaged.empty())
    throw Error("{}: all checkpoints are damaged; the newest is {}.", argument.string(),
                names.damaged.back().path.string());
  if (found.empty() && fs::exists(argument / "run.yaml", error) && is_trial(argument))
    throw Error(
        "{}: this trial has no checkpoint. `tessera sweep` removes the checkpoints of trials that "
        "it stops early, unless --keep-checkpoints is given; the other trials save one at the end "
        "of each rung. Use one of those.",
        argument.string());
  if (found.empty() && fs::exists(argument / "run.yaml", error))
    throw Error(
        "{}: this run has not saved a checkpoint yet. It saves every checkpoint.every_steps steps, "
        "at its end, and when Ctrl-C stops it.",
        argument.string());
  if (found.empty() && is_peft_folder(argument))
    throw Error(
        "{}: contains adapters of PEFT, not a model. Give the folder of their base model here, and "
        "this one as --adapter (eval, generate, chat, serve, checkpoint import) or lora.from "
        "(train).",
        argument.string());
  if (found.empty())
    throw Error(
        "{}: contains no intact checkpoint, expected a checkpoint folder (with {}), a checkpoints/ "
        "folder or a run directory.",
        argument.string(), kIndexFile);
  return found;
}

Path resolve_checkpoint(const Path& argument, std::vector<std::string>* skipped) {
  const std::vector<Path> all = checkpoints_of(argument);
  if (all[0] == argument) return argument;
  std::string reasons;
  for (const Path& path : all) {
    const FoundCheckpoint c = look_at({0, path});
    if (c.broken.empty()) return path;
    if (skipped != nullptr) skipped->push_back(c.broken);
    reasons += "\n  " + c.broken;
  }
  throw Error("{}: contains no intact checkpoint:{}", argument.string(), reasons);
}

Path rename_damaged(const Path& checkpoint) {
  Path place = checkpoint;
  place += kDamaged;
  std::error_code error;
  for (int n = 2; fs::symlink_status(place, error).type() != fs::file_type::not_found; ++n)
    place = fmt::format("{}{}-{}", checkpoint.string(), kDamaged, n);
  move_folder(checkpoint, place);
  // Flushed, since a crash could otherwise restore the old name of the damaged checkpoint.
  sync_folder(checkpoint.parent_path());
  return place;
}

void remove_own_unfinished(const Path& checkpoints_dir) {
  for (const auto& [step, path] : names_in(checkpoints_dir).unfinished) {
    const std::optional<TemporaryName> t = parse_temporary(path.filename().string());
    if (t && t->maker == this_process()) remove_folder(path);
  }
}

std::vector<Path> prune(const Path& checkpoints_dir, const KeepRule& rule) {
  std::vector<Path> removed;
  const CheckpointNames names = names_in(checkpoints_dir);
  const std::vector<CheckpointNames::Entry> all = in_order_of_worth(names, rule);
  if (!all.empty()) remove_unfinished(names, all[0].path, removed);
  if (rule.keep <= 0) return removed;
  int64_t kept = 0;
  std::string failed;
  for (const auto& [step, path] : all) {
    // A checkpoint that this process has just saved is intact, so it is not read.
    const bool fresh = !rule.saved.empty() && step == rule.saved.back();
    if (fresh && rule.seen != nullptr) rule.seen->insert_or_assign(path, true);
    if (!fresh && !is_whole({step, path}, rule.seen)) continue;
    if (++kept <= rule.keep) continue;
    const bool every = rule.keep_every_steps > 0 && step % rule.keep_every_steps == 0;
    const bool named =
        std::find(rule.at_steps.begin(), rule.at_steps.end(), step) != rule.at_steps.end();
    if (every || named || step == rule.started_from || (rule.also && rule.also(step))) continue;
    try {
      remove_folder(path);
    } catch (const FileError& error) {  // the others are still removed
      failed += fmt::format("{}{}: {}", failed.empty() ? "" : "; ", path.string(),
                            std::strerror(error.code()));
      continue;
    }
    if (rule.seen != nullptr) rule.seen->erase(path);
    removed.push_back(path);
  }
  if (!failed.empty()) throw Error(failed);
  return removed;
}

}  // namespace tessera::checkpoint
