// Synchronous successive halving: a rung's trials share a queue, from which as many run as there
// are jobs. Trials that an earlier command has run to the rung are not started again.
//
// A rung ends before the next one begins. The asynchronous variant (ASHA) would keep all jobs busy,
// but then the survivors depend on which trial happens to end first; here a sweep with the same
// definition has the same result on every machine. A trial that diverged or failed is out, and its
// place in the next rung goes to the next best one.
//
// The parent keeps no state but the record, which it stores after each result. A sweep that is
// stopped or killed continues from it; a trial that was running continues from its own checkpoint.
#include "sweep/trials.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <thread>

#include "base/error.h"
#include "base/tree.h"
#include "launch/command.h"

namespace tessera::sweep {
namespace {

constexpr int kDivergedCode = kNumericExitCode;
constexpr int kNoProgramCode = 127;  // exit code of a shell
constexpr auto kPollEvery = std::chrono::milliseconds(20);

std::string last_line(const Path& log) {
  std::string text = std::filesystem::exists(log) ? read_file(log) : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t line = text.rfind('\n');
  return line == text.npos ? text : text.substr(line + 1);
}

class Trials {
 public:
  Trials(SweepRecord& record, const Path& directory, const TrialOptions& options)
      : record_(record), directory_(directory), options_(options), slots_(options.jobs) {}

  bool run() {
    std::vector<size_t> alive(record_.trials.size());
    for (size_t i = 0; i < alive.size(); ++i) alive[i] = i;
    const std::vector<Rung>& rungs = record_.definition.rungs;
    for (size_t r = 0; r < rungs.size(); ++r) {
      if (r > 0) alive = survivors(alive, r);
      if (!run_rung(alive, r)) return false;
    }
    for (const size_t i : alive)
      if (record_.trials[i].results.size() == rungs.size())
        record_.trials[i].outcome = Outcome::kFinished;
    store();
    return true;
  }

 private:
  struct Slot {
    size_t trial = 0;
    std::unique_ptr<launch::Child> child;
  };

  Path folder(size_t trial) const { return directory_ / directory_of(trial); }
  Path log(size_t trial) const { return folder(trial).string() + ".log"; }
  void store() const { write_record(directory_ / "sweep.json", record_); }

  // Returns the trials that continue to `rung`, in the order of their numbers, and marks the others
  // as stopped. Their checkpoints are deleted, since a sweep may have hundreds of trials.
  std::vector<size_t> survivors(const std::vector<size_t>& alive, size_t rung) {
    std::vector<double> scores;
    for (const size_t i : alive) {
      const std::vector<RungResult>& own = record_.trials[i].results;
      scores.push_back(own.size() < rung ? std::numeric_limits<double>::infinity()
                                         : own[rung - 1].score);
    }
    std::vector<size_t> kept;
    for (const size_t at : best_of(scores, record_.definition.rungs[rung].trials))
      kept.push_back(alive[at]);
    std::sort(kept.begin(), kept.end());
    for (const size_t i : alive) {
      TrialRecord& t = record_.trials[i];
      if (std::binary_search(kept.begin(), kept.end(), i) || t.outcome != Outcome::kWaiting)
        continue;
      t.outcome = Outcome::kStopped;
      if (!options_.keep) std::filesystem::remove_all(folder(i) / "checkpoints");
    }
    store();
    return kept;
  }

  bool run_rung(const std::vector<size_t>& alive, size_t rung) {
    const int64_t steps = record_.definition.rungs[rung].steps;
    std::deque<size_t> queue;
    for (const size_t i : alive) {
      const TrialRecord& t = record_.trials[i];
      if (t.results.size() == rung && t.outcome != Outcome::kDiverged) queue.push_back(i);
    }
    if (!queue.empty())
      options_.say(fmt::format("rung      {} of {}: {} trial{} to step {}", rung + 1,
                               record_.definition.rungs.size(), alive.size(),
                               alive.size() == 1 ? "" : "s", steps));
    for (;;) {
      if (options_.stop_requested()) return stop();
      bool running = false;
      for (size_t s = 0; s < slots_.size(); ++s) {
        Slot& slot = slots_[s];
        if (slot.child) finish_if_ended(slot, steps);
        if (!slot.child && !queue.empty()) {
          begin(s, queue.front(), steps);
          queue.pop_front();
        }
        running |= slot.child != nullptr;
      }
      if (!running) return true;
      std::this_thread::sleep_for(kPollEvery);
    }
  }

  void begin(size_t slot, size_t trial, int64_t steps) {
    record_.trials[trial].outcome = Outcome::kWaiting;
    record_.trials[trial].why.clear();
    std::filesystem::create_directories(directory_ / "trials");
    const std::string line = "exec " + launch::quote_words(words_of(trial, steps)) + " >" +
                             launch::quote_words({log(trial).string()}) + " 2>&1";
    std::vector<std::string> environment;
    if (!options_.devices.empty())
      environment.push_back("CUDA_VISIBLE_DEVICES=" + options_.devices[slot]);
    slots_[slot].trial = trial;
    slots_[slot].child = std::make_unique<launch::Child>(
        std::vector<std::string>{"/bin/sh", "-c", line}, environment);
  }

  std::vector<std::string> words_of(size_t trial, int64_t steps) const {
    const Definition& d = record_.definition;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> words = {self, d.ranks > 1 ? "launch" : "train", d.run};
    if (d.ranks > 1) words.insert(words.end(), {"-n", std::to_string(d.ranks)});
    const auto add = [&](const std::vector<std::string>& more) {
      words.insert(words.end(), more.begin(), more.end());
    };
    add(d.keys);
    if (options_.threads > 0) add({fmt::format("run.threads={}", options_.threads)});
    add(keys_of(d.parameters, record_.trials[trial].point));
    add(trial_keys(folder(trial), steps));
    return words;
  }

  void finish_if_ended(Slot& slot, int64_t steps) {
    const std::optional<int> code = slot.child->ended();
    if (!code) return;
    slot.child.reset();
    // All further trials would end like this one.
    if (*code == kNoProgramCode)
      throw Error(
          "trial {:03} was not started: {}. Was the program replaced? Run the same command "
          "again to continue.",
          slot.trial, last_line(log(slot.trial)));
    TrialRecord& t = record_.trials[slot.trial];
    const Path metrics = folder(slot.trial) / "metrics.jsonl";
    std::optional<double> score;
    if (*code == 0 && std::filesystem::exists(metrics))
      score = score_of(read_file(metrics), record_.definition.score, steps);
    if (score && std::isfinite(*score)) {
      t.results.push_back({steps, *score});
    } else if (score || *code == kDivergedCode) {
      t.outcome = Outcome::kDiverged;
    } else {
      t.outcome = Outcome::kFailed;
      t.why = last_line(log(slot.trial));
    }
    store();
    const std::string result =
        t.outcome == Outcome::kWaiting ? fmt::format("{:.4f}", *score) : name_of(t.outcome);
    options_.say(fmt::format("trial {:03}  step {:>6}  {:>9}  {}{}", slot.trial, steps, result,
                             text_of(record_.definition.parameters, t.point),
                             t.why.empty() ? "" : "\n           " + t.why));
  }

  // Asks the running trials to save, and waits for them.
  bool stop() {
    for (Slot& slot : slots_)
      if (slot.child) slot.child->signal_all(SIGTERM);
    for (Slot& slot : slots_)
      while (slot.child && !slot.child->ended()) std::this_thread::sleep_for(kPollEvery);
    store();
    return false;
  }

  SweepRecord& record_;
  const Path& directory_;
  const TrialOptions& options_;
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<std::string> trial_keys(const Path& directory, int64_t steps) {
  return {"run.directory=" + directory.string(),
          fmt::format("run.stop_after_steps={}", steps),
          "checkpoint.resume=auto",
          "checkpoint.save_at_end=true",
          "checkpoint.keep=1",
          "schedule.stop.patience=0"};
}

std::optional<double> score_of(const std::string& metrics_lines, const std::string& score,
                               int64_t steps) {
  double sum = 0;
  int64_t count = 0;
  bool reached = false;
  const bool trains = score == "loss";
  const int64_t first = steps - std::max<int64_t>(steps / 10, 1);
  for (const Tree& line : parse_json_lines(metrics_lines, "metrics.jsonl")) {
    const Tree* at = line.find("step");
    const Tree* value = line.find(score);
    const auto* step = at == nullptr ? nullptr : std::get_if<int64_t>(&at->value);
    if (step == nullptr || value == nullptr) continue;
    const bool counts = trains ? *step > first && *step <= steps : *step == steps;
    if (!counts) continue;
    reached |= *step == steps;
    // A number that is not finite is null.
    sum += number_in(*value).value_or(std::numeric_limits<double>::infinity());
    ++count;
  }
  if (!reached) return std::nullopt;
  return sum / static_cast<double>(count);
}

bool run_trials(SweepRecord& record, const Path& directory, const TrialOptions& options) {
  return Trials(record, directory, options).run();
}

}  // namespace tessera::sweep
