// Writes an example with the verdicts from which the metrics are computed, so that the share of
// rows that are right is the metric.
#include "eval/evaluate.h"

#include "base/error.h"

namespace tessera::eval {
namespace {

// "accuracy_length" → "_length"; "accuracy" and "exact_match" → "".
std::string suffix_of(const std::string& metric) {
  for (const std::string_view usual : {"accuracy", "exact_match"})
    if (metric.starts_with(usual)) return metric.substr(usual.size());
  CHECK(false, "metric {} has no verdict", metric);
  return "";
}

}  // namespace

Tree example_row(const TaskSpec& spec, const Example& example, const ExampleScore& score) {
  Tree row, log = Tree::list();
  for (const double x : score.log) log.push(Tree(x));
  const std::vector<Verdict> verdicts = verdicts_of(spec, example, score);
  row.set("line", Tree(score.line));
  row.set("right", Tree(verdicts.front().right));
  switch (spec.kind) {
    case TaskKind::kChoice:
      row.set("expected", Tree(example.gold));
      for (const Verdict& v : verdicts) row.set("choice" + suffix_of(v.metric), Tree(v.choice));
      row.set("log_likelihood", std::move(log));
      break;
    case TaskKind::kLastWord:
      row.set("expected", Tree(example.options.front().response));
      row.set("log_likelihood", std::move(log));
      break;
    case TaskKind::kExactMatch:
      row.set("expected", Tree(expected_answer(spec, example)));
      row.set("extracted", Tree(score.extracted));
      if (!spec.extract_last.empty()) {
        row.set("right_last", Tree(verdicts.back().right));
        row.set("extracted_last", Tree(score.extracted_last));
      }
      row.set("written", Tree(score.written));
      break;
  }
  return row;
}

}  // namespace tessera::eval
