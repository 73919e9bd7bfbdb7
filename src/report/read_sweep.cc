// Reads sweep.json. The page sorts trials as the sweep itself ranks them: by the steps reached,
// then by the score. A key is an axis of a chart if all of its values are numbers, on a logarithmic
// scale if the sweep sampled it on one.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "base/tree.h"
#include "report/run_data.h"
#include "report/sweep_data.h"

namespace tessera::report {
namespace {

class Reader {
 public:
  explicit Reader(const Path& file) : file_(file.string()) {}

  const Tree& member(const Tree& t, const char* name) const {
    const Tree* m = t.find(name);
    if (m == nullptr) throw Error("{}: '{}' is missing. The file is damaged.", file_, name);
    return *m;
  }
  std::string text(const Tree& t, const char* name) const {
    const std::string* s = member(t, name).as_string();
    if (s == nullptr) throw Error("{}: '{}' is not a text. The file is damaged.", file_, name);
    return *s;
  }
  int64_t integer(const Tree& t, const char* name) const {
    const auto* n = std::get_if<int64_t>(&member(t, name).value);
    if (n == nullptr) throw Error("{}: '{}' is not an integer. The file is damaged.", file_, name);
    return *n;
  }
  const Tree::List& list(const Tree& t, const char* name) const {
    const Tree::List* l = member(t, name).as_list();
    if (l == nullptr) throw Error("{}: '{}' is not a list. The file is damaged.", file_, name);
    return *l;
  }

 private:
  std::string file_;
};

// Returns the finite number that the whole text is; nothing for other texts.
std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, wrong] = std::from_chars(text.data(), end, value);
  const bool is_number = wrong == std::errc() && last == end && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

// Returns true for positive numbers of which the largest is at least 20 times the smallest: on a
// linear axis, the small ones would be one point.
bool spans_orders(const Tree::List& values) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Tree& v : values) {
    const double x = number_of(*v.as_string()).value_or(0);
    low = std::min(low, x), high = std::max(high, x);
  }
  return low > 0 && high >= 20 * low;
}

SweepKey key_of(const Tree& tree, const Reader& read) {
  SweepKey key;
  key.key = read.text(tree, "key");
  if (tree.find("values") != nullptr) {
    const Tree::List& values = read.list(tree, "values");
    key.numeric = std::all_of(values.begin(), values.end(), [](const Tree& v) {
      return v.as_string() != nullptr && number_of(*v.as_string());
    });
    key.listed = true;
    key.logarithmic = key.numeric && spans_orders(values);
    return key;
  }
  key.numeric = true;
  key.logarithmic = read.text(tree, "scale") == "log";
  return key;
}

SweepTrial trial_of(const Tree& tree, const std::vector<SweepKey>& keys, const Path& directory,
                    const Reader& read) {
  SweepTrial t;
  t.number = read.integer(tree, "trial");
  t.outcome = read.text(tree, "outcome");
  t.directory = directory / read.text(tree, "directory");
  const Tree& values = read.member(tree, "keys");
  for (const SweepKey& key : keys) t.values.push_back(read.text(values, key.key.c_str()));
  const Tree::List& rungs = read.list(tree, "rungs");
  t.score = std::numeric_limits<double>::quiet_NaN();
  if (rungs.empty()) return t;
  t.steps = read.integer(rungs.back(), "steps");
  t.score = number_in(read.member(rungs.back(), "score")).value_or(t.score);
  return t;
}

}  // namespace

bool is_sweep(const Path& directory) { return std::filesystem::exists(directory / "sweep.json"); }

SweepData read_sweep(const Path& directory) {
  const Path file = directory / "sweep.json";
  const Tree root = parse_json(read_file(file), file.string());
  const Reader read(file);
  SweepData sweep;
  sweep.name = name_of_directory(directory);
  const Tree& definition = read.member(root, "sweep");
  sweep.score = read.text(definition, "score");
  sweep.method = read.text(definition, "method");
  for (const Tree& rung : read.list(definition, "rungs"))
    sweep.rungs.push_back(fmt::format("{} trials to step {}", read.integer(rung, "trials"),
                                      read.integer(rung, "steps")));
  for (const Tree& key : read.list(definition, "parameters"))
    sweep.keys.push_back(key_of(key, read));
  for (const Tree& trial : read.list(root, "trials"))
    sweep.trials.push_back(trial_of(trial, sweep.keys, directory, read));
  sweep.steps_taken = read.integer(root, "steps_taken");
  sweep.steps_in_full = read.integer(root, "steps_in_full");
  const auto order = [](const SweepTrial& t) {
    return std::make_tuple(!std::isfinite(t.score), -t.steps,
                           std::isfinite(t.score) ? t.score : 0.0, t.number);
  };
  std::sort(sweep.trials.begin(), sweep.trials.end(),
            [&](const SweepTrial& a, const SweepTrial& b) { return order(a) < order(b); });
  return sweep;
}

}  // namespace tessera::report
