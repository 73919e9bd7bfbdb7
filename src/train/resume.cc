#include "train/resume.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/config.h"
#include "base/error.h"

namespace tessera {
namespace {

// A whole section where it ends in a point.
constexpr std::array<std::string_view, 7> kOfTheRun = {
    "model.",       "data.train", "data.tokenizer", "data.split", "data.sequence_length",
    "batch.global",  // the position in the data is its product with the step
    "run.seed"};
constexpr std::array<std::string_view, 7> kOfTheStart = {
    "run.stop_after_steps", "run.dump_gradients", "checkpoint.resume",       "checkpoint.from",
    "checkpoint.load",      "metrics.trace_step", "checkpoint.allow_changes"};

bool is_among(std::string_view path, std::span<const std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
    return key.ends_with('.') ? path.starts_with(key) : path == key;
  });
}

}  // namespace

std::vector<ResumeChange> changes_since(const Tree& saved, const Tree& now) {
  std::vector<ResumeChange> out;
  if (!saved.as_members() || saved.as_members()->empty()) return out;
  for (const Change& c : differences(saved, now)) {
    if (is_among(c.path, kOfTheStart)) continue;
    // A key that one of two versions of the program does not have is news, not another run.
    const bool both = c.before != "(not given)" && c.after != "(not given)";
    out.push_back({c.path, c.before, c.after, both && is_among(c.path, kOfTheRun)});
  }
  return out;
}

std::string to_string(const ResumeChange& c) {
  return fmt::format("{} {} -> {}", c.path, c.before, c.after);
}

void refuse_another_run(std::span<const ResumeChange> changes, bool allowed,
                        const std::string& checkpoint) {
  std::string list;
  for (const ResumeChange& c : changes) {
    if (c.other_run) list += fmt::format("\n  {}", to_string(c));
  }
  if (list.empty() || allowed) return;
  throw Error(
      "{} was written by another run than the run file describes:{}\nGive the new run a "
      "run.directory of its own (checkpoint.from={} starts from these weights), or go on all the "
      "same with   checkpoint.allow_changes=true",
      checkpoint, list, checkpoint);
}

}  // namespace tessera
