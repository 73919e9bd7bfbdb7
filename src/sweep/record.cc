// Writes and reads sweep.json, and ranks the trials.
//
// The definition is stored and compared as JSON text: a sweep continues only if every key that
// influences its results is equal, so results of different sweeps are never mixed. The hash in it
// covers the keys of the run file that do not vary. The points are generated again from the
// definition; the file has them for readers.
#include "sweep/record.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/config.h"
#include "base/enum_array.h"
#include "base/error.h"

namespace tessera::sweep {
namespace {

constexpr EnumArray<Outcome, const char*> kOutcomes = {"waiting", "finished", "stopped", "diverged",
                                                       "failed"};

Tree as_tree(const Parameter& p) {
  Tree t;
  t.set("key", Tree(p.key));
  if (p.scale == Scale::kList) {
    Tree values = Tree::list();
    for (const std::string& v : p.values) values.push(Tree(v));
    t.set("values", std::move(values));
    return t;
  }
  t.set("low", Tree(p.low));
  t.set("high", Tree(p.high));
  t.set("scale", Tree(std::string(p.scale == Scale::kLogarithmic ? "log" : "linear")));
  t.set("integers", Tree(p.integers));
  return t;
}

Tree as_tree(const Definition& d) {
  Tree keys = Tree::list(), parameters = Tree::list(), rungs = Tree::list(), t;
  for (const std::string& key : d.keys) keys.push(Tree(key));
  for (const Parameter& p : d.parameters) parameters.push(as_tree(p));
  for (const Rung& r : d.rungs) {
    Tree rung;
    rung.set("steps", Tree(r.steps));
    rung.set("trials", Tree(r.trials));
    rungs.push(std::move(rung));
  }
  t.set("run", Tree(d.run));
  t.set("overrides", std::move(keys));
  t.set("configuration", Tree(d.hash));
  t.set("parameters", std::move(parameters));
  t.set("method", Tree(std::string(name_of_entry(d.method))));
  t.set("seed", Tree(d.seed));
  t.set("ranks", Tree(d.ranks));
  t.set("halving", Tree(d.eta));
  t.set("score", Tree(d.score));
  t.set("rungs", std::move(rungs));
  return t;
}

Tree as_tree(const SweepRecord& record, size_t trial) {
  const TrialRecord& own = record.trials[trial];
  Tree keys = Tree::object(), results = Tree::list(), t;
  for (size_t k = 0; k < own.point.size(); ++k)
    keys.set(record.definition.parameters[k].key, Tree(own.point[k]));
  for (const RungResult& r : own.results) {
    Tree result;
    result.set("steps", Tree(r.steps));
    result.set("score", Tree(r.score));
    results.push(std::move(result));
  }
  t.set("trial", Tree(static_cast<int64_t>(trial)));
  t.set("keys", std::move(keys));
  t.set("outcome", Tree(std::string(name_of(own.outcome))));
  t.set("rungs", std::move(results));
  t.set("directory", Tree(directory_of(trial)));
  if (!own.why.empty()) t.set("why", Tree(own.why));
  return t;
}

const Tree& member(const Tree& t, const char* name, const Path& file) {
  const Tree* m = t.find(name);
  if (m == nullptr) throw Error("{}: '{}' is missing. The file is damaged.", file.string(), name);
  return *m;
}

Outcome outcome_of(const Tree& t, const Path& file) {
  const std::string* name = t.as_string();
  for (const Outcome o : Enumerators<Outcome>())
    if (name != nullptr && *name == kOutcomes[o]) return o;
  throw Error("{}: unknown outcome {} of a trial. The file is damaged.", file.string(), to_json(t));
}

void read_trial(const Tree& tree, TrialRecord& trial, const Path& file) {
  trial.outcome = outcome_of(member(tree, "outcome", file), file);
  const Tree& rungs = member(tree, "rungs", file);
  if (rungs.as_list() == nullptr) throw Error("{}: 'rungs' is not a list.", file.string());
  for (const Tree& rung : *rungs.as_list()) {
    RungResult r;
    const auto* steps = std::get_if<int64_t>(&member(rung, "steps", file).value);
    if (steps == nullptr) throw Error("{}: 'steps' is not an integer.", file.string());
    r.steps = *steps;
    // Infinity is null in JSON.
    if (const std::optional<double> score = number_in(member(rung, "score", file)))
      r.score = *score;
    trial.results.push_back(r);
  }
  if (const Tree* why = tree.find("why"); why != nullptr && why->as_string() != nullptr)
    trial.why = *why->as_string();
}

}  // namespace

const char* name_of(Outcome outcome) { return kOutcomes[outcome]; }

std::string directory_of(size_t trial) { return fmt::format("trials/{:03}", trial); }

double TrialRecord::score() const {
  return results.empty() ? std::numeric_limits<double>::infinity() : results.back().score;
}

bool TrialRecord::works() const {
  return std::isfinite(score()) && outcome != Outcome::kDiverged && outcome != Outcome::kFailed;
}

// Scores of different rungs cannot be compared, since a loss falls with the steps. So the number of
// steps comes first: a trial that reached a later rung was better than all that did not. The index
// breaks ties, so the table does not depend on the order in which trials ended. Trials that
// diverged or failed are last, whatever they had reached before.
std::vector<size_t> SweepRecord::ranking() const {
  std::vector<size_t> order(trials.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    const double score = trials[i].score();
    return std::make_tuple(!trials[i].works(), -trials[i].steps(), score, i);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

std::optional<size_t> SweepRecord::best() const {
  const std::vector<size_t> order = ranking();
  if (order.empty() || !trials[order[0]].works()) return std::nullopt;
  return order[0];
}

int64_t SweepRecord::steps_taken() const {
  int64_t sum = 0;
  for (const TrialRecord& t : trials) sum += t.steps();
  return sum;
}

int64_t SweepRecord::steps_in_full() const {
  return std::ssize(trials) * definition.rungs.back().steps;
}

Tree as_tree(const SweepRecord& record) {
  Tree trials = Tree::list(), t;
  for (size_t i = 0; i < record.trials.size(); ++i) trials.push(as_tree(record, i));
  t.set("sweep", as_tree(record.definition));
  t.set("trials", std::move(trials));
  t.set("steps_taken", Tree(record.steps_taken()));
  t.set("steps_in_full", Tree(record.steps_in_full()));
  if (const std::optional<size_t> best = record.best())
    t.set("best", Tree(static_cast<int64_t>(*best)));
  return t;
}

void write_record(const Path& file, const SweepRecord& record) {
  write_file(file, to_json(as_tree(record), 1) + "\n");
}

SweepRecord read_record(const Path& file, const Definition& definition,
                        const std::vector<Point>& points) {
  SweepRecord record{definition, {}};
  for (const Point& p : points) record.trials.push_back({p, Outcome::kWaiting, {}, ""});
  if (!std::filesystem::exists(file)) return record;
  const Tree stored = parse_json(read_file(file), file.string());
  const std::string ours = to_json(as_tree(definition));
  const Tree& theirs = member(stored, "sweep", file);
  if (to_json(theirs) != ours)
    throw Error(
        "{} belongs to another sweep: its run file, keys, ranges, method, seed, ranks, rungs or "
        "data differ. Repeat the command of that sweep to continue it, or choose another directory "
        "with "
        "--out.",
        file.string());
  const Tree& trials = member(stored, "trials", file);
  if (trials.as_list() == nullptr || trials.as_list()->size() != points.size())
    throw Error("{}: expected {} entries in 'trials'. The file is damaged.", file.string(),
                points.size());
  for (size_t i = 0; i < points.size(); ++i)
    read_trial((*trials.as_list())[i], record.trials[i], file);
  return record;
}

std::string table_of(const SweepRecord& record) {
  const std::vector<size_t> order = record.ranking();
  std::string text =
      fmt::format("rank  trial  {:>7}  {:>15}  outcome   keys\n", "steps", record.definition.score);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const TrialRecord& t = record.trials[order[rank]];
    text += fmt::format("{:>4}  {:>5}  {:>7}  {:>15}  {:<8}  {}\n", rank + 1,
                        fmt::format("{:03}", order[rank]), t.steps(),
                        std::isfinite(t.score()) ? fmt::format("{:.4f}", t.score()) : "–",
                        name_of(t.outcome), text_of(record.definition.parameters, t.point));
  }
  return text;
}

}  // namespace tessera::sweep
