// Parses the output of mpirun and srun: the rank of each line, and the launcher's own messages
// about how a rank ended.
#include "launch/command.h"

#include <array>
#include <charconv>

namespace tessera::launch {
namespace {

// Reads digits at the start of `text` and removes them. Returns -1 if there are none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || value < 0) return -1;
  text.remove_prefix(end - text.data());
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// Parses "[job,rank]<stdout>:text", or the same with <stderr>.
RankLine parse_tagged(std::string_view line) {
  std::string_view rest = line;
  if (!take(rest, "[") || take_number(rest) < 0 || !take(rest, ",")) return {-1, std::string(line)};
  const int rank = take_number(rest);
  if (rank < 0 || !take(rest, "]<std") || !(take(rest, "out>:") || take(rest, "err>:")))
    return {-1, std::string(line)};
  return {rank, std::string(rest)};
}

RankLine parse_labelled(std::string_view line) {
  std::string_view rest = line;
  while (take(rest, " ")) continue;  // labels are aligned
  const int rank = take_number(rest);
  if (rank < 0 || !take(rest, ":")) return {-1, std::string(line)};
  take(rest, " ");
  return {rank, std::string(rest)};
}

// Removes everything up to and including the first `word`. Returns false if it does not occur.
bool take_until(std::string_view& text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == text.npos) return false;
  text.remove_prefix(at + word.size());
  return true;
}

// Parses "… process rank 1 with PID 0 on node n02 exited on signal 9 (Killed)."
RankLine parse_mpirun_ending(std::string_view rest) {
  if (!take_until(rest, "process rank ")) return {};
  const int rank = take_number(rest);
  if (rank < 0 || !take_until(rest, " exited on signal ")) return {};
  const int number = take_number(rest);
  if (number < 0 || !take(rest, " (")) return {};
  const size_t end = rest.find(')');
  if (end == rest.npos) return {};
  return {rank, "signal " + std::to_string(number) + ", " + std::string(rest.substr(0, end))};
}

// Parses "srun: error: n02: task 1: Killed".
RankLine parse_srun_ending(std::string_view rest) {
  if (!take_until(rest, "srun: error: ")) return {};
  const size_t host_end = rest.find(' ');
  if (host_end == rest.npos || host_end == 0) return {};
  rest.remove_prefix(host_end);
  if (!take(rest, " task ")) return {};
  const int rank = take_number(rest);
  if (rank < 0 || !take(rest, ": ") || rest.empty()) return {};
  return {rank, std::string(rest)};
}

}  // namespace

RankLine parse_line(Launcher launcher, std::string_view line) {
  return launcher == Launcher::kMpirun ? parse_tagged(line) : parse_labelled(line);
}

RankLine parse_ending(Launcher launcher, std::string_view line) {
  return launcher == Launcher::kMpirun ? parse_mpirun_ending(line) : parse_srun_ending(line);
}

bool is_noise(std::string_view line) {
  static constexpr std::array<std::string_view, 7> kSaidAlways = {
      "srun: cluster configuration lacks support for cpu binding",
      "------",
      "Primary job  terminated normally, but",
      "a non-zero exit code. Per user-direction, the job has been aborted.",
      "mpirun detected that one or more processes exited with non-zero status",
      "the job to be terminated. The first process to do so was:",
      "srun: Job step aborted"};
  if (line.empty()) return true;
  for (const std::string_view& start : kSaidAlways)
    if (line.starts_with(start)) return true;
  return false;
}

}  // namespace tessera::launch
