#include "report/follow.h"

#include <algorithm>
#include <fstream>

namespace tessera::report {
namespace {

constexpr size_t kCompared = 256;

uintmax_t size_of(const Path& file) {
  std::error_code absent;
  const uintmax_t bytes = std::filesystem::file_size(file, absent);
  return absent ? 0 : bytes;
}

// Returns the bytes from `begin` to the end; nothing if the file cannot be read or is shorter.
std::optional<std::string> tail_of(const Path& file, size_t begin) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const std::streamoff end = in.tellg();
  if (!in || end < std::streamoff(begin)) return std::nullopt;
  std::string text(end - begin, '\0');
  in.seekg(std::streamoff(begin));
  in.read(text.data(), std::ssize(text));
  return in ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace

RunFollower::RunFollower(const Path& directory) : directory_(directory) { read_all(); }

void RunFollower::read_all() {
  run_ = read_run(directory_);
  log_bytes_ = size_of(directory_ / "log.txt");
  // The position after the last whole line that read_run() saw. Lines that were added meanwhile are
  // read again, and the last line of a step counts.
  const std::optional<std::string> text = tail_of(directory_ / "metrics.jsonl", 0);
  read_ = 0;
  for (int line = 0; text && line < run_.metrics_lines; ++line) read_ = text->find('\n', read_) + 1;
  last_bytes_ =
      text ? text->substr(read_ - std::min(read_, kCompared), std::min(read_, kCompared)) : "";
}

// Returns false if the file is not the one that was read before.
bool RunFollower::add_new_metrics() {
  const Path file = directory_ / "metrics.jsonl";
  const std::optional<std::string> text = tail_of(file, read_ - last_bytes_.size());
  if (!text) return read_ == 0;
  if (!text->starts_with(last_bytes_)) return false;
  const size_t before = last_bytes_.size();
  const size_t added = add_metrics(std::string_view(*text).substr(before), file, run_);
  read_ += added;
  const size_t kept = std::min(before + added, kCompared);
  last_bytes_ = text->substr(before + added - kept, kept);
  return true;
}

void RunFollower::update() {
  if (!std::filesystem::is_directory(directory_) || !add_new_metrics()) return read_all();
  const Path log = directory_ / "log.txt";
  if (size_of(log) == log_bytes_) return;
  log_bytes_ = size_of(log);
  run_.log = {};
  read_log(log, run_);
  // A start may have another configuration.
  run_.settings.clear();
  read_settings(settings_file(directory_), run_);
}

}  // namespace tessera::report
