// tessera sweep RUN KEY=LOW..HIGH KEY=A,B … [--method random|grid] [--trials N] [--halving N]
//
// Trains the run of a run file with other values of some keys and finds those with the smallest
// loss. What is tried, and when a trial stops early, is in sweep/; this file reads the command
// line, divides the cores or GPUs among the trials, and writes the run file of the best one.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/log.h"
#include "base/owner_lock.h"
#include "base/philox.h"
#include "checkpoint/checksum.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "measure/tune_history.h"
#include "sweep/trials.h"
#include "tensor/cpu_features.h"
#include "train/load_run.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

constexpr int64_t kMostTrials = 10'000, kMostHalving = 100;

struct SweepArguments {
  std::string run, method = "random", out;
  std::vector<std::string> keys;
  int64_t trials = 16, points = 4, jobs = 0, ranks = 1, seed = 1;
  sweep::Halving halving;
  bool keep = false, json = false;
};

void in_range(const char* option, int64_t found, int64_t least, int64_t most) {
  if (found < least || found > most)
    throw UsageError("sweep {} {}: expected {} to {}.", option, found, least, most);
}

bool read_arguments(Args args, SweepArguments& s) {
  Arguments a("sweep",
              "Train a run with many values of some keys and find those with the smallest loss "
              "(`tessera tune` finds the fastest settings).",
              "tessera sweep run.yaml optimizer.learning_rate=1e-4..1e-2 --trials 12 --halving 3");
  a.required(s.run, "RUN", "the run file");
  a.many(s.keys, "key=value",
         "keys to vary, as LOW..HIGH (by the logarithm if HIGH is ten times LOW or more; integers "
         "if both are) or A,B,C; and overrides with one value",
         1);
  a.option(s.method, "--method", "random|grid", "how points are chosen");
  a.option(s.trials, "--trials", "N", "number of random points");
  a.option(s.points, "--points", "N", "values of each range with --method grid");
  a.option(s.halving.eta, "--halving", "N",
           "stop trials early: only the best 1/N of each rung continue, with N times the steps; 1: "
           "every trial runs all steps");
  a.option(s.halving.finalists, "--finalists", "N",
           "with --halving, the minimum number of trials that run all steps");
  a.option(s.jobs, "--jobs", "N", "trials at once; 0: as many as the cores or GPUs allow");
  a.option(s.ranks, "-n", "RANKS", "ranks per trial");
  a.option(s.seed, "--seed", "N", "random seed of the points");
  a.option(
      s.out, "--out", "DIR",
      "directory of the sweep; the same command continues it (default: DIRECTORY_OF_RUN-sweep)");
  a.flag(s.keep, "--keep-checkpoints", "keep the checkpoints of trials that were stopped early");
  a.json(s.json);
  if (!a.parse(args)) return false;
  if (s.method != "random" && s.method != "grid")
    throw UsageError("sweep --method {}: expected random or grid.", s.method);
  const bool grid = s.method == "grid";
  if (a.given(grid ? "--trials" : "--points"))
    throw UsageError("sweep {} requires --method {}.", grid ? "--trials" : "--points",
                     grid ? "random" : "grid");
  in_range("--trials", s.trials, 1, kMostTrials);
  in_range("--points", s.points, 1, kMostTrials);
  in_range("--halving", s.halving.eta, 1, kMostHalving);
  in_range("--finalists", s.halving.finalists, 1, kMostTrials);
  if (s.halving.eta == 1 && a.given("--finalists"))
    throw UsageError("sweep --finalists requires --halving of 2 or more.");
  in_range("--jobs", s.jobs, 0, kMostTrials);
  in_range("-n", s.ranks, 1, kMostTrials);
  in_range("--seed", s.seed, 0, int64_t{1} << 53);
  return true;
}

// Keys that the trials set themselves, or that the rungs are counted in.
void check_parameter(const sweep::Parameter& p) {
  for (const char* taken : {"run.directory", "run.name", "run.stop_after_steps", "run.threads",
                            "schedule.steps", "schedule.tokens", "checkpoint."})
    if (p.key.starts_with(taken))
      throw UsageError(
          "sweep {}: this key cannot be varied: a sweep sets it itself, or all trials must agree "
          "on "
          "it. Give one value.",
          p.key);
}

// Makes ranges of keys that are real numbers real, even if both ends are integers:
// optimizer.weight_decay=0..1.
void use_types_of_keys(config::RunConfig& config, std::vector<sweep::Parameter>& parameters) {
  for (const Field& field : fields_of(config))
    for (sweep::Parameter& p : parameters)
      if (p.key == field.path && std::holds_alternative<double>(field.write().value))
        p.integers = false;
}

// Returns text that changes with the content of a file; for a large file, with its size and time.
std::string content_of(const Path& file) {
  constexpr uintmax_t kLarge = uintmax_t{64} << 20;
  if (const uintmax_t size = std::filesystem::file_size(file); size > kLarge)
    return fmt::format("{} {}", size,
                       std::filesystem::last_write_time(file).time_since_epoch().count());
  return checkpoint::checksum_text(checkpoint::checksum_of(MappedFile(file).bytes()));
}

// Adds the content of the files that a value of the configuration names: files, datasets, folders
// of checkpoints.
void add_files(const Tree& value, Tree& files) {
  if (const Tree::List* const list = value.as_list())
    for (const Tree& item : *list) add_files(item, files);
  if (const Tree::Members* const members = value.as_members())
    for (const auto& [key, member] : *members) add_files(member, files);
  const std::string* const text = value.as_string();
  if (text == nullptr || text->empty()) return;
  for (const char* end : {"", ".idx", ".bin", "/index.json"}) {
    std::error_code error;
    const Path path = *text + end;
    if (std::filesystem::is_regular_file(path, error))
      files.set(path.string(), Tree(content_of(path)));
  }
}

// Returns a hash of the configuration without the keys that the sweep varies, and of the files that
// it names.
std::string hash_of(config::RunConfig config, const std::vector<sweep::Parameter>& parameters) {
  Tree fixed, files = Tree::object();
  for (const Field& field : fields_of(config)) {
    if (std::any_of(parameters.begin(), parameters.end(),
                    [&](const sweep::Parameter& p) { return p.key == field.path; }))
      continue;
    fixed.set(field.path, field.write());
    add_files(field.write(), files);
  }
  fixed.set("files", std::move(files));
  return fmt::format("{:016x}", hash_name(to_json(fixed)));
}

class Sweep {
 public:
  explicit Sweep(const SweepArguments& arguments);
  int run();

 private:
  void divide_arguments();
  void check_points(const std::vector<sweep::Point>& points) const;
  void share_machine();
  void announce() const;
  void report();
  Path write_best(size_t trial) const;
  template <class... A>
  void say(fmt::format_string<A...> format, A&&... a) const {
    print_to(arguments_.json ? stderr : stdout,
             printable(fmt::format(format, std::forward<A>(a)...)) + "\n");
  }

  const SweepArguments& arguments_;
  sweep::Definition definition_;
  config::RunConfig config_;  // with the overrides, without the values of a trial
  Path directory_;
  sweep::TrialOptions options_;
  sweep::SweepRecord record_;
};

Sweep::Sweep(const SweepArguments& arguments) : arguments_(arguments) {
  divide_arguments();
  sweep::Definition& d = definition_;
  d.run = arguments.run;
  config_ = train::load_run(arguments.run, d.keys);
  if (!config_.run.time_limit.empty())
    throw Error(
        "sweep: run.time_limit = {} is not supported, because all trials of a rung have the same "
        "steps. Remove it: Ctrl-C ends a sweep, and the same command continues it.",
        config_.run.time_limit);
  use_types_of_keys(config_, d.parameters);
  d.method = arguments.method == "grid" ? sweep::Method::kGrid : sweep::Method::kRandom;
  d.hash = hash_of(config_, d.parameters);
  d.seed = d.method == sweep::Method::kGrid ? 0 : arguments.seed;
  d.ranks = arguments.ranks;
  d.eta = arguments.halving.eta;
  d.score =
      config_.data.validation.empty() && config_.data.split.empty() ? "loss" : "validation_loss";
  directory_ = arguments.out.empty() ? config_.run.directory + "-sweep" : arguments.out;
  const std::vector<sweep::Point> points =
      d.method == sweep::Method::kGrid
          ? sweep::grid(d.parameters, arguments.points, kMostTrials)
          : sweep::sample(d.parameters, arguments.trials, static_cast<uint64_t>(arguments.seed));
  check_points(points);
  sweep::Halving halving = arguments.halving;
  halving.least = config_.schedule.warmup_steps + 1;
  d.rungs = sweep::rungs_of(std::ssize(points), config_.schedule.steps, halving);
  share_machine();
  record_ = sweep::read_record(directory_ / "sweep.json", d, points);
}

void Sweep::divide_arguments() {
  for (const std::string& key : arguments_.keys) {
    const std::optional<sweep::Parameter> p = sweep::parse_parameter(key);
    if (!p) {
      definition_.keys.push_back(key);
      continue;
    }
    check_parameter(*p);
    definition_.parameters.push_back(*p);
  }
  if (definition_.parameters.empty())
    throw UsageError(
        "sweep: no key is varied. Give a range, such as optimizer.learning_rate=1e-4..1e-2, or a "
        "list, such as batch.global=8,16,32.");
}

// Checks every point before anything runs, so that an impossible value is not found hours later.
void Sweep::check_points(const std::vector<sweep::Point>& points) const {
  for (const sweep::Point& point : points) {
    std::vector<std::string> keys = definition_.keys;
    for (const std::string& key : sweep::keys_of(definition_.parameters, point))
      keys.push_back(key);
    const config::RunConfig config = train::load_run(arguments_.run, keys);
    config::validate(config, config::DataUse::kRead);
    config::validate_names(config);
    const int64_t ranks = compile::mesh_of(config.layout).ranks();
    if (ranks != arguments_.ranks)
      throw Error("{}: its layout has {}, but -n is {}.",
                  sweep::text_of(definition_.parameters, point), counted(ranks, "rank"),
                  arguments_.ranks);
  }
}

// Divides the GPUs, or else the cores, among trials that run at once.
void Sweep::share_machine() {
  const int64_t cores = read_cpu_features().cores, ranks = arguments_.ranks;
  const bool may_use_gpu = config_.run.device != config::Device::kCpu;
  const std::vector<std::string> gpus =
      may_use_gpu ? measure::visible_gpus() : std::vector<std::string>();
  int64_t jobs = arguments_.jobs;
  if (!gpus.empty()) {
    const int64_t most = std::max<int64_t>(1, std::ssize(gpus) / ranks);
    if (jobs == 0) jobs = most;
    if (jobs > 1 && jobs <= most)
      for (int64_t j = 0; j < jobs; ++j) {
        std::string own;
        for (int64_t r = 0; r < ranks; ++r) own += (r > 0 ? "," : "") + gpus[size_t(j * ranks + r)];
        options_.devices.push_back(own);
      }
  } else {
    const int64_t own = std::max<int64_t>(1, config_.run.threads);
    if (jobs == 0) jobs = std::max<int64_t>(1, cores / (ranks * own));
    if (config_.run.threads == 0) options_.threads = std::max<int64_t>(1, cores / (ranks * jobs));
  }
  options_.jobs = std::min(jobs, definition_.rungs.front().trials);
  options_.keep = arguments_.keep;
}

void Sweep::announce() const {
  const sweep::Definition& d = definition_;
  int64_t known = 0;
  for (const sweep::TrialRecord& t : record_.trials) known += std::ssize(t.results);
  say("sweep     {} of {}, {}{}; {} at once; {}{}", counted(std::ssize(record_.trials), "trial"),
      counted(std::ssize(d.parameters), "key"), arguments_.method,
      d.method == sweep::Method::kRandom ? fmt::format(", seed {}", d.seed) : "", options_.jobs,
      (directory_ / "sweep.json").string(),
      known > 0 ? fmt::format(", {} known", counted(known, "result")) : "");
  std::string rungs;
  for (const sweep::Rung& r : d.rungs)
    rungs += fmt::format("{}{} to step {}", rungs.empty() ? "" : ", ", counted(r.trials, "trial"),
                         format_count(r.steps));
  const int64_t all = record_.steps_in_full();
  say("rungs     {}: {} of {} steps ({:.0f} %)", rungs, format_count(sweep::steps_of(d.rungs)),
      format_count(all),
      100 * static_cast<double>(sweep::steps_of(d.rungs)) / static_cast<double>(all));
}

// Writes the run file of the best trial, with all values resolved and a directory of its own.
Path Sweep::write_best(size_t trial) const {
  std::vector<std::string> keys = definition_.keys;
  for (const std::string& key : sweep::keys_of(definition_.parameters, record_.trials[trial].point))
    keys.push_back(key);
  config::RunConfig best = train::load_run(arguments_.run, keys);
  best.run.name += "-best";
  best.run.directory += "-best";
  const Path file = directory_ / "best.yaml";
  write_file(file, to_yaml(to_tree(best)));
  return file;
}

void Sweep::report() {
  const std::optional<size_t> found = record_.best();
  if (!found)
    throw Error("none of {} succeeded. Their logs are {}/NUMBER.log.",
                counted(std::ssize(record_.trials), "trial"), (directory_ / "trials").string());
  const size_t best = *found;
  const Path file = write_best(best);
  if (arguments_.json) {
    fmt::print("{}\n", to_json(sweep::as_tree(record_)));
    return;
  }
  show("{}", sweep::table_of(record_));
  show("best: trial {:03}, {} {:.4f}; the sweep ran {} steps, of {} without halving ({:.0f} %)\n",
       best, definition_.score, record_.trials[best].score(), format_count(record_.steps_taken()),
       format_count(record_.steps_in_full()),
       100 * static_cast<double>(record_.steps_taken()) /
           static_cast<double>(record_.steps_in_full()));
  show("best run: {}\nuse it:   tessera train {}\nreport:   tessera report {}\n",
       (directory_ / sweep::directory_of(best)).string(), file.string(), directory_.string());
}

int Sweep::run() {
  std::filesystem::create_directories(directory_);
  const OwnerLock lock(
      directory_ / "sweep.lock",
      {.subject = fmt::format("--out {}", directory_.string()),
       .advice = "Only one sweep at a time may use a directory. Wait until that one "
                 "has ended, or choose another directory with --out.",
       .say = [&](const std::string& line) { say("{}", line); }});
  announce();
  const train::StopSignals stop;
  options_.stop_requested = [&] { return stop.requested(); };
  options_.say = [&](const std::string& line) { say("{}", line); };
  if (!sweep::run_trials(record_, directory_, options_)) {
    say("stopped   the same command continues");
    return 128 + stop.signal();
  }
  report();
  return 0;
}

}  // namespace

int verb_sweep(Args args) {
  SweepArguments s;
  if (!read_arguments(args, s)) return 0;
  return Sweep(s).run();
}

}  // namespace tessera::cli
