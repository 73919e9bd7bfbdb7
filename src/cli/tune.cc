// tessera tune RUN [-n RANKS] [--trials N] [--knob KEY=A,B …] [--cluster C] [--simulate] [--json]
//
// Bayesian optimization over the points of a discrete space (plan/tune.h): each trial is a short
// run of this program as a child process, and its median step time updates a surrogate model that
// proposes the next points. With --cluster, the predictions of the simulator are the prior. Every
// result is stored as soon as it is known, so stopping loses only the trials in progress.
// --simulate replaces the child processes with a simulator whose figures are perturbed by
// --perturb, to test the method itself.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/clock.h"
#include "checkpoint/durable.h"
#include "cli/machine_files.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "launch/command.h"
#include "measure/trial.h"
#include "measure/tune_history.h"
#include "measure/tune_points.h"
#include "plan/predict.h"
#include "plan/shapley.h"
#include "train/load_run.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

std::string count(size_t n, std::string_view thing) { return counted(n, thing); }

struct TuneArguments {
  measure::TunedRun run;
  std::vector<std::string> knobs;
  std::string cluster, history;
  int64_t trials = 20, parallel = 1, steps = 5, seed = 1;
  double limit_s = 300, memory_gib = 0, perturb = 0;
  bool simulate = false, json = false;
};

void check_arguments(const TuneArguments& t) {
  const auto least = [](const char* option, int64_t found, int64_t wanted) {
    if (found < wanted) throw UsageError("tune {} {}: expected {} or more.", option, found, wanted);
  };
  least("-n", t.run.ranks, 1);
  least("--trials", t.trials, 1);
  least("--parallel", t.parallel, 1);
  least("--steps", t.steps, 2);  // the first step is not measured
  if (!(t.limit_s > 0))
    throw UsageError("tune --limit {}: expected more than 0 seconds.", t.limit_s);
  if (!(t.memory_gib >= 0))
    throw UsageError("tune --memory {}: expected 0 (no limit) or more GiB.", t.memory_gib);
  if (!(t.perturb >= 0 && t.perturb < 1))
    throw UsageError("tune --perturb {}: expected a value in [0, 1), such as 0.3.", t.perturb);
  if (t.perturb > 0 && !t.simulate) throw UsageError("tune --perturb requires --simulate.");
}

bool read_arguments(Args args, TuneArguments& t) {
  Arguments a("tune",
              "Find the fastest settings of a run with short trials: its speed, not its loss "
              "(`tessera sweep` finds the learning rate and other keys with the smallest loss).",
              "tessera tune run.yaml --trials 20");
  a.required(t.run.run, "RUN", "the run file");
  a.many(t.run.keys, "key=value", "overrides of run-file keys");
  a.option(t.run.ranks, "-n", "RANKS", "ranks per trial");
  a.option(t.trials, "--trials", "N", "total trials, including the valid ones in the history");
  a.option(t.knobs, "--knob", "KEY=A,B",
           "key and its values to try (repeatable); default: the keys that usually matter");
  a.option(t.cluster, "--cluster", "FILE", "machine whose simulation chooses the first trials");
  a.flag(t.simulate, "--simulate", "simulate the trials too");
  a.option(t.perturb, "--perturb", "SHARE", "relative error of the simulated machine's figures");
  a.option(t.steps, "--steps", "N", "steps per trial; the first is not measured");
  a.option(t.limit_s, "--limit", "SECONDS", "time limit of a trial");
  a.option(t.memory_gib, "--memory", "GIB", "address space per process of a trial; 0: no limit");
  a.option(t.parallel, "--parallel", "N", "number of parallel trials");
  a.option(t.seed, "--seed", "N", "random seed");
  a.option(t.history, "--history", "FILE", "history of trials (default: tune.json of the run)");
  a.json(t.json);
  if (!a.parse(args)) return false;
  if (t.simulate && t.cluster.empty()) throw UsageError("tune: --simulate needs --cluster.");
  check_arguments(t);
  if (t.simulate) t.run.data = config::DataUse::kIgnored;
  return true;
}

constexpr double kTellEverySeconds = 10;

class Tuning {
 public:
  explicit Tuning(const TuneArguments& t);
  ~Tuning();
  int go();

 private:
  struct Running {
    size_t point;
    std::unique_ptr<measure::Trial> trial;
  };
  std::vector<plan::PriorBelief> beliefs() const;
  std::string text(size_t point) const { return space_.text(space_.points[point]); }
  std::string keys(size_t point) const;
  void tell(size_t point, const plan::TrialResult& result, const std::string& why);
  void begin(size_t point);
  bool wait_for_one(const train::StopSignals& stop);
  void report() const;
  template <class... A>
  void say(fmt::format_string<A...> format, A&&... a) const {
    const std::string text = printable(fmt::format(format, std::forward<A>(a)...));
    fmt::print(t_.json ? stderr : stdout, "{}\n", text);
  }

  const TuneArguments& t_;
  plan::Space space_;
  measure::Simulator nominal_, actual_;
  measure::TrialOptions options_;
  Path history_;
  measure::TrialConditions conditions_;
  Path folder_;  // folder of the trials, made by this process; empty before the first trial
  std::unique_ptr<plan::Tuner> tuner_;
  std::vector<measure::PastTrial> past_;
  std::vector<Running> running_;
  size_t begun_ = 0;
};

// Trials are ended before their folders are removed.
Tuning::~Tuning() {
  running_.clear();
  std::error_code left;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, left);
}

Tuning::Tuning(const TuneArguments& t) : t_(t) {
  std::vector<plan::Knob> knobs;
  for (const std::string& k : t.knobs) knobs.push_back(measure::parse_knob(k));
  space_ = measure::space_of(t.run, knobs);
  const config::RunConfig config = train::load_run(t.run.run, t.run.keys);
  history_ = t.history.empty() ? Path(config.run.directory) / "tune.json" : Path(t.history);
  options_ = {t.run.run, t.run.keys, t.run.ranks, t.steps, t.limit_s, t.memory_gib};
  if (!t.cluster.empty()) {
    nominal_ = {open_cluster(t.cluster), plan::cluster_target()};
    actual_ = {measure::perturbed(nominal_.hardware, t.perturb, static_cast<uint64_t>(t.seed)),
               nominal_.target};
  }
  tuner_ = std::make_unique<plan::Tuner>(space_, beliefs(),
                                         plan::TunerOptions{.seed = static_cast<uint64_t>(t.seed)});
  conditions_ =
      measure::conditions_of(t.run, space_, t.steps, t.simulate ? &actual_.hardware : nullptr);
  past_ = measure::read_history(history_, space_, conditions_);
  for (const measure::PastTrial& p : past_) tuner_->tell(p.point, p.result);
}

// Predicts every point with the simulator, which the tuner combines with the results of trials.
// Without a machine there is no prior.
std::vector<plan::PriorBelief> Tuning::beliefs() const {
  std::vector<plan::PriorBelief> all;
  if (t_.cluster.empty()) return all;
  double told_s = steady_s();
  for (const plan::Point& p : space_.points) {
    all.push_back(nominal_.believe(t_.run, space_, p));
    if (steady_s() < told_s + kTellEverySeconds) continue;
    told_s = steady_s();
    say("predict   {} of {} done", all.size(), count(space_.points.size(), "point"));
  }
  return all;
}

// Records a trial in the tuner, in memory and in the history file, which survives if the process is
// killed.
void Tuning::tell(size_t point, const plan::TrialResult& result, const std::string& why) {
  tuner_->tell(point, result);
  past_.push_back({point, result});
  measure::add_to_history(history_, space_, conditions_, past_.back());
  const std::string outcome = result.outcome == plan::Outcome::kRan
                                  ? fmt::format("{:.4g} s per step", result.seconds)
                                  : std::string(plan::name_of(result.outcome));
  say("trial {:>3}  {:<16}  {}{}", past_.size(), outcome, text(point),
      result.outcome == plan::Outcome::kFailed && !why.empty() ? "\n           " + why : "");
}

// Starts a trial in its own folder. A simulated trial ends within this call.
void Tuning::begin(size_t point) {
  if (t_.simulate) return tell(point, actual_.run(t_.run, space_, space_.points[point]), "");
  if (folder_.empty())
    folder_ = checkpoint::make_part_folder(
        Path(train::load_run(t_.run.run, t_.run.keys).run.directory) / "trials");
  const Path folder = folder_ / std::to_string(begun_++);
  running_.push_back({point, std::make_unique<measure::Trial>(
                                 options_, measure::keys_of(t_.run, space_, space_.points[point]),
                                 folder, steady_s())});
}

// Waits for the end of a trial. Returns false if a signal requested the end of tuning.
bool Tuning::wait_for_one(const train::StopSignals& stop) {
  for (; !stop.requested(); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
    for (size_t i = 0; i < running_.size(); ++i) {
      const std::optional<plan::TrialResult> result = running_[i].trial->poll(steady_s());
      if (!result) continue;
      const std::string why = running_[i].trial->why();
      const size_t point = running_[i].point;
      running_.erase(running_.begin() + i);
      tell(point, *result, why);
      return true;
    }
  return false;
}

// Returns the overrides that produce the run of a point, quoted for a shell.
std::string Tuning::keys(size_t point) const {
  std::vector<std::string> all = t_.run.keys;
  for (const std::string& key : measure::keys_of(t_.run, space_, space_.points[point]))
    all.push_back(key);
  return launch::quote_words(all);
}

void Tuning::report() const {
  const std::optional<size_t> best = tuner_->best();
  if (!best)
    throw Error("none of {} succeeded. See the messages above.", count(past_.size(), "trial"));
  double seconds = 0;
  for (const measure::PastTrial& p : past_)
    if (p.point == *best) seconds = p.result.seconds;
  std::vector<double> worth(space_.knobs.size(), 0);
  // Exact Shapley values take time exponential in the number of knobs.
  if (space_.knobs.size() <= plan::kMostShapleyKnobs)
    worth = plan::importance(plan::shapley(space_, tuner_->expected()));
  Tree t, knobs = Tree::object();
  for (size_t k = 0; k < worth.size(); ++k) knobs.set(space_.knobs[k].key, Tree(worth[k]));
  t.set("best", Tree(text(*best)));
  t.set("keys", Tree(keys(*best)));
  t.set("step_s", Tree(seconds));
  t.set("importance", std::move(knobs));
  t.set("points", Tree(std::ssize(space_.points)));
  t.set("history", measure::as_tree(space_, past_));
  if (t_.json) {
    fmt::print("{}\n", to_json(t));
    return;
  }
  show("best of {} ({}): {:.4g} s per step\nuse it:  {}\n", count(past_.size(), "trial"),
       count(space_.points.size(), "point"), seconds, keys(*best));
  show("effect of each key, in % of the step time (mean over all points):\n");
  for (size_t k = 0; k < worth.size(); ++k)
    show("  {:<28} {:5.1f}\n", space_.knobs[k].key, 100 * std::expm1(worth[k]));
}

int Tuning::go() {
  say("tune      {} of {}, {}{}; history {}", count(space_.points.size(), "point"),
      count(space_.knobs.size(), "knob"), counted(t_.trials, "trial"),
      past_.empty() ? "" : fmt::format(", {} known", past_.size()), history_.string());
  const size_t wanted = t_.trials;
  const train::StopSignals stop;
  for (;;) {
    // Running trials count, so that at most --trials are started. ask() may return fewer points
    // than requested when the space is exhausted. Simulated trials end within begin().
    const size_t open = past_.size() + running_.size();
    const size_t free =
        std::min<size_t>(t_.parallel - running_.size(), wanted - std::min(open, wanted));
    for (const size_t point : tuner_->ask(free)) begin(point);
    if (running_.empty() && (past_.size() >= wanted || past_.size() >= space_.points.size())) break;
    if (running_.empty() || wait_for_one(stop)) continue;
    say("stopped   {} kept; the same command resumes", count(past_.size(), "trial"));
    return 128 + stop.signal();
  }
  report();
  return 0;
}

}  // namespace

int verb_tune(Args args) {
  TuneArguments t;
  if (!read_arguments(args, t)) return 0;
  return Tuning(t).go();
}

}  // namespace tessera::cli
