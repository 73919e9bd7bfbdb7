// Runs a trial of `tessera tune` as a child process with its output in a file, and classifies its
// end from exit code and output. A separate process can run out of memory without ending the
// tuning.
#include "measure/trial.h"

#include <algorithm>
#include <csignal>

#include "base/error.h"
#include "base/median.h"
#include "base/tree.h"
#include "launch/command.h"

namespace tessera::measure {
namespace {

// A shell's exit code for SIGKILL, which the kernel's out-of-memory killer sends.
constexpr int kKilled = 128 + SIGKILL;

bool says_out_of_memory(const std::string& log) {
  for (const char* words :
       {"out of memory", "this run needs", "bad_alloc", "annot allocate", "failed to map segment"})
    if (log.find(words) != log.npos) return true;
  return false;
}

std::string read_if_there(const Path& path) {
  return std::filesystem::exists(path) ? read_file(path) : "";
}

std::vector<std::string> words_of(const TrialOptions& o, const std::vector<std::string>& keys,
                                  const Path& folder) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {self, o.ranks > 1 ? "launch" : "train", o.run};
  if (o.ranks > 1) words.insert(words.end(), {"-n", std::to_string(o.ranks)});
  words.insert(words.end(), o.keys.begin(), o.keys.end());
  words.insert(words.end(), keys.begin(), keys.end());
  const std::vector<std::string> fixed = trial_keys(folder / "run", o.steps);
  words.insert(words.end(), fixed.begin(), fixed.end());
  return words;
}

}  // namespace

std::vector<std::string> trial_keys(const Path& directory, int64_t steps) {
  return {"run.directory=" + directory.string(),
          fmt::format("run.stop_after_steps={}", steps),
          "checkpoint.every_steps=0",
          "checkpoint.resume=never",
          "metrics.every_steps=1",
          "schedule.stop.patience=0",
          "run.time_limit=''",
          "metrics.validate_every_steps=0",
          "metrics.validate_sequences=1",
          "metrics.tensorboard=false"};
}

double median_step_s(const std::string& metrics_lines) {
  std::vector<double> seconds;
  for (const Tree& line : parse_json_lines(metrics_lines, "metrics.jsonl"))
    if (const Tree* s = line.find("step_s"))
      if (const double* value = std::get_if<double>(&s->value)) seconds.push_back(*value);
  if (seconds.size() < 2) return 0;
  // The first step includes warm-up: memory is touched and kernels are prepared.
  seconds.erase(seconds.begin());
  return median(std::move(seconds));
}

Trial::Trial(const TrialOptions& options, const std::vector<std::string>& keys, Path folder,
             double now_s)
    : options_(options), folder_(std::move(folder)), started_s_(now_s) {
  std::filesystem::create_directory(folder_);
  std::string line = launch::quote_words(words_of(options, keys, folder_)) + " >" +
                     launch::quote_words({(folder_ / "log").string()}) + " 2>&1";
  if (options.memory_gib > 0)
    // ulimit -v counts KiB. exec replaces the shell, so signals reach the program itself.
    line = fmt::format("ulimit -v {:.0f}; exec {}", options.memory_gib * (1 << 20), line);
  else
    line = "exec " + line;
  child_ = std::make_unique<launch::Child>(std::vector<std::string>{"/bin/sh", "-c", line},
                                           std::vector<std::string>{});
}

Trial::~Trial() {
  // The child may be a launcher with ranks; they are all in its process group.
  child_->signal_all(SIGKILL);
  child_.reset();
  std::error_code nothing_lost;
  std::filesystem::remove_all(folder_, nothing_lost);
}

std::optional<plan::TrialResult> Trial::poll(double now_s) {
  if (const std::optional<int> code = child_->ended()) return result(*code);
  if (now_s - started_s_ < options_.limit_s) return std::nullopt;
  child_->signal_all(SIGKILL);
  return plan::TrialResult{plan::Outcome::kTimeOut, 0};
}

plan::TrialResult Trial::result(int code) const {
  if (code == 0) {
    const double seconds = median_step_s(read_if_there(folder_ / "run" / "metrics.jsonl"));
    return seconds > 0 ? plan::TrialResult{plan::Outcome::kRan, seconds}
                       : plan::TrialResult{plan::Outcome::kFailed, 0};
  }
  const bool memory = code == kKilled || says_out_of_memory(read_if_there(folder_ / "log"));
  return {memory ? plan::Outcome::kOutOfMemory : plan::Outcome::kFailed, 0};
}

std::string Trial::why() const {
  std::string log = read_if_there(folder_ / "log");
  while (!log.empty() && log.back() == '\n') log.pop_back();
  const size_t line = log.rfind('\n');
  return line == log.npos ? log : log.substr(line + 1);
}

}  // namespace tessera::measure
