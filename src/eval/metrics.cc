// Computes the metrics of tasks and their standard errors over the examples.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/evaluate.h"

namespace tessera::eval {
namespace {

double mean(std::span<const double> x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

// Returns the standard error of the mean of independent samples: the standard deviation, with
// n - 1, over sqrt(n).
double standard_error(std::span<const double> x) {
  if (x.size() < 2) return 0;
  const double middle = mean(x), n = static_cast<double>(x.size());
  double sum = 0;
  for (const double v : x) sum += (v - middle) * (v - middle);
  return std::sqrt(sum / (n - 1) / n);
}

Metric share(std::string name, const std::vector<double>& right) {
  return {std::move(name), mean(right), standard_error(right)};
}

double characters(std::string_view text) {
  // Continuation bytes of UTF-8 do not count.
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Returns the index of the option with the largest value; of equal options the first one.
template <class Value>
int64_t best_option(const ExampleScore& score, const Value& value) {
  int64_t best = 0;
  for (int64_t k = 1; k < std::ssize(score.log); ++k)
    if (value(k) > value(best)) best = k;
  return best;
}

std::vector<Verdict> of_choice(const TaskSpec& spec, const Example& e, const ExampleScore& s) {
  std::vector<Verdict> out;
  const auto add = [&](const char* metric, int64_t choice) {
    out.push_back({metric, choice == e.gold, choice});
  };
  add("accuracy", best_option(s, [&](size_t k) { return s.log[k]; }));
  // Per character, because the sum over tokens favors short options and depends on the tokenizer.
  add("accuracy_length",
      best_option(s, [&](size_t k) { return s.log[k] / characters(e.options[k].response); }));
  // Subtracts the ln p that an option has without the question. Otherwise options of common text
  // would win.
  if (!spec.unconditional.empty())
    add("accuracy_unconditional",
        best_option(s, [&](size_t k) { return s.log[k] - s.unconditional[k]; }));
  return out;
}

std::vector<Verdict> of_answer(const TaskSpec& spec, const Example& e, const ExampleScore& s) {
  const std::string correct = expected_answer(spec, e);
  // If an expression finds nothing, the answer is wrong, even if nothing is left of the reference
  // either.
  const auto is_right = [&](const std::string& expression, const std::string& extracted) {
    return extracted == correct && (expression.empty() || !extracted.empty());
  };
  std::vector<Verdict> out = {{"exact_match", is_right(spec.extract, s.extracted)}};
  if (!spec.extract_last.empty())
    out.push_back({"exact_match_last", is_right(spec.extract_last, s.extracted_last)});
  return out;
}

Metric perplexity(std::span<const ExampleScore> scores) {
  std::vector<double> log;
  for (const ExampleScore& s : scores) log.push_back(s.log[0]);
  const double value = std::exp(-mean(log));
  // The error of exp(x) is exp(x) times the error of x, to first order.
  return {"perplexity", value, value * standard_error(log)};
}

}  // namespace

std::string expected_answer(const TaskSpec& spec, const Example& example) {
  TaskSpec answer = spec;  // the reference answer is used as it is
  answer.extract.clear();
  return extract_answer(answer, example.answer);
}

std::vector<Verdict> verdicts_of(const TaskSpec& spec, const Example& example,
                                 const ExampleScore& score) {
  switch (spec.kind) {
    case TaskKind::kChoice:
      return of_choice(spec, example, score);
    case TaskKind::kLastWord:
      return {{"accuracy", score.greedy}};
    case TaskKind::kExactMatch:
      return of_answer(spec, example, score);
  }
  return {};
}

std::vector<Metric> metrics_of(const TaskSpec& spec, std::span<const Example> examples,
                               std::span<const ExampleScore> scores) {
  CHECK(!examples.empty() && examples.size() == scores.size(), "{} examples, {} scores",
        examples.size(), scores.size());
  std::vector<std::string> names;
  std::vector<std::vector<double>> right;  // by metric
  for (size_t i = 0; i < examples.size(); ++i) {
    const std::vector<Verdict> verdicts = verdicts_of(spec, examples[i], scores[i]);
    right.resize(verdicts.size());
    names.resize(verdicts.size());
    for (size_t m = 0; m < verdicts.size(); ++m) {
      names[m] = verdicts[m].metric;
      right[m].push_back(verdicts[m].right ? 1 : 0);
    }
  }
  std::vector<Metric> out;
  for (size_t m = 0; m < names.size(); ++m) out.push_back(share(names[m], right[m]));
  if (spec.kind == TaskKind::kLastWord) out.push_back(perplexity(scores));
  return out;
}

}  // namespace tessera::eval
