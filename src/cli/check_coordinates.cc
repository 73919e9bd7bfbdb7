// tessera check-coordinates RUN --widths 64,128,256: the coordinate check of maximal update
// parametrization. Trains the model in several widths for a few steps and compares how much its
// activations change.
#include <cmath>

#include "base/tree.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "measure/coordinates.h"

namespace tessera::cli {
namespace {

// Parses "64,128,256".
std::vector<int64_t> widths_of(const std::string& text) {
  std::vector<int64_t> widths;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool digits = !word.empty() && word.size() < 8 &&
                        word.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoll(word) < 1)
      throw UsageError(fmt::format(
          "--widths '{}': expected widths, separated by commas, such as 64,128,256", text));
    widths.push_back(std::stoll(word));
    if (widths.size() > 1 && widths.back() <= widths[widths.size() - 2])
      throw UsageError(fmt::format("--widths {}: expected rising widths", text));
    at = end + 1;
  }
  if (widths.size() < 2)
    throw UsageError(fmt::format("--widths {}: expected at least two widths", text));
  return widths;
}

struct Row {
  std::string name;
  std::vector<double> changes;  // per width
  double exponent = 0;
};

// Returns a row per kind of activation. Those that do not change at some width are left out.
std::vector<Row> rows_of(const std::vector<int64_t>& widths,
                         const std::vector<measure::ActivationChange>& changes) {
  const std::vector<double> x(widths.begin(), widths.end());
  std::vector<Row> rows;
  for (const auto& [name, first] : changes[0]) {
    Row row{name, {}, 0};
    bool moves = true;
    for (const measure::ActivationChange& c : changes) {
      const auto found = c.find(name);
      row.changes.push_back(found == c.end() ? 0 : found->second);
      moves = moves && row.changes.back() > 0;
    }
    if (!moves) continue;
    row.exponent = measure::growth_exponent(x, row.changes);
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_json(const std::vector<int64_t>& widths, const std::vector<Row>& rows, bool passes) {
  Tree out = Tree::object(), list = Tree::list(), all = Tree::list();
  for (const int64_t w : widths) all.push(Tree(w));
  for (const Row& row : rows) {
    Tree one = Tree::object(), changes = Tree::list();
    for (const double c : row.changes) changes.push(Tree(c));
    one.set("name", Tree(row.name));
    one.set("changes", std::move(changes));
    one.set("exponent", Tree(row.exponent));
    list.push(std::move(one));
  }
  out.set("widths", std::move(all));
  out.set("activations", std::move(list));
  out.set("passes", Tree(passes));
  fmt::print("{}\n", to_json(out));
}

void print_table(const std::vector<int64_t>& widths, const std::vector<Row>& rows,
                 double tolerance) {
  size_t longest = 10;
  for (const Row& row : rows) longest = std::max(longest, row.name.size());
  fmt::print("{:<{}}", "mean |change|", longest + 2);
  for (const int64_t w : widths) fmt::print("{:>11}", fmt::format("width {}", w));
  fmt::print("{:>10}\n", "exponent");
  for (const Row& row : rows) {
    fmt::print("{:<{}}", row.name, longest + 2);
    for (const double c : row.changes) fmt::print("{:>11.3e}", c);
    fmt::print("{:>+10.2f}{}\n", row.exponent, std::abs(row.exponent) > tolerance ? "  !" : "");
  }
}

}  // namespace

int verb_check_coordinates(Args args) {
  std::string run, widths_text = "64,128,256,512";
  std::vector<std::string> overrides;
  int64_t steps = 3;
  double tolerance = 0.3;
  bool json = false;
  Arguments a(
      "check-coordinates",
      "Train a model in several widths for a few steps and compare how much its activations "
      "change: with model.mup.base, not more in wide models.",
      "tessera check-coordinates run.yaml --widths 64,128,256 model.mup.base=64");
  a.required(run, "RUN", "a run file");
  a.option(widths_text, "--widths", "LIST", "values of model.hidden; other widths grow with it");
  a.option(steps, "--steps", "N", "number of updates");
  a.option(tolerance, "--tolerance", "X", "largest exponent of the growth that passes");
  a.json(json);
  a.many(overrides, "key=value", "overrides of the run file");
  if (!a.parse(args)) return 0;
  const std::vector<int64_t> widths = widths_of(widths_text);
  if (steps < 1) throw UsageError(fmt::format("--steps {}, expected at least 1", steps));
  const model::ModelConfig given = open_run(run, overrides).model;
  std::vector<measure::ActivationChange> changes;
  for (const int64_t width : widths) {
    std::vector<std::string> keys = overrides;
    for (std::string& key : measure::keys_of_width(given, width)) keys.push_back(std::move(key));
    changes.push_back(measure::change_of_activations(open_run(run, keys), steps));
  }
  const std::vector<Row> rows = rows_of(widths, changes);
  bool passes = !rows.empty();
  for (const Row& row : rows) passes = passes && std::abs(row.exponent) <= tolerance;
  if (json)
    print_json(widths, rows, passes);
  else
    print_table(widths, rows, tolerance);
  if (!json)
    fmt::print("{}\n", passes ? "The change of all activations is independent of the width."
                              : "The change of activations marked '!' depends on the width.");
  return passes ? 0 : 1;
}

}  // namespace tessera::cli
