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

template <class Value>
std::vector<double> chosen_right(std::span<const Example> examples,
                                 std::span<const ExampleScore> scores, const Value& value) {
  std::vector<double> out;
  for (size_t i = 0; i < examples.size(); ++i) {
    int64_t best = 0;
    for (int64_t k = 1; k < std::ssize(scores[i].log); ++k)
      // Strictly greater: of equal options the first one is chosen.
      if (value(i, k) > value(i, best)) best = k;
    out.push_back(best == examples[i].gold ? 1 : 0);
  }
  return out;
}

std::vector<Metric> of_choice(const TaskSpec& spec, std::span<const Example> examples,
                              std::span<const ExampleScore> scores) {
  std::vector<Metric> out;
  out.push_back(share("accuracy", chosen_right(examples, scores, [&](size_t i, size_t k) {
                        return scores[i].log[k];
                      })));
  // Per character, because the sum over tokens favors short options and depends on the tokenizer.
  out.push_back(share("accuracy_length", chosen_right(examples, scores, [&](size_t i, size_t k) {
                        return scores[i].log[k] / characters(examples[i].options[k].response);
                      })));
  if (spec.unconditional.empty()) return out;
  // Subtracts the ln p that an option has without the question. Otherwise options of common text
  // would win.
  out.push_back(
      share("accuracy_unconditional", chosen_right(examples, scores, [&](size_t i, size_t k) {
              return scores[i].log[k] - scores[i].unconditional[k];
            })));
  return out;
}

std::vector<Metric> of_last_word(std::span<const ExampleScore> scores) {
  std::vector<double> right, log;
  for (const ExampleScore& s : scores) {
    right.push_back(s.greedy ? 1 : 0);
    log.push_back(s.log[0]);
  }
  const double perplexity = std::exp(-mean(log));
  // The error of exp(x) is exp(x) times the error of x, to first order.
  return {share("accuracy", right), {"perplexity", perplexity, perplexity * standard_error(log)}};
}

}  // namespace

std::vector<Metric> metrics_of(const TaskSpec& spec, std::span<const Example> examples,
                               std::span<const ExampleScore> scores) {
  CHECK(!examples.empty() && examples.size() == scores.size(), "{} examples, {} scores",
        examples.size(), scores.size());
  if (spec.kind == TaskKind::kChoice) return of_choice(spec, examples, scores);
  if (spec.kind == TaskKind::kLastWord) return of_last_word(scores);
  TaskSpec answer = spec;  // the reference answer is used as it is
  answer.extract.clear();
  std::vector<double> right, right_last;
  // If an expression finds nothing, the answer is wrong, even if nothing is left of the reference
  // either.
  const auto found = [](const std::string& expression, const std::string& extracted) {
    return expression.empty() || !extracted.empty();
  };
  for (size_t i = 0; i < examples.size(); ++i) {
    const std::string correct = extract_answer(answer, examples[i].answer);
    const ExampleScore& s = scores[i];
    right.push_back(s.extracted == correct && found(spec.extract, s.extracted) ? 1 : 0);
    right_last.push_back(
        s.extracted_last == correct && found(spec.extract_last, s.extracted_last) ? 1 : 0);
  }
  std::vector<Metric> out = {share("exact_match", right)};
  if (!spec.extract_last.empty()) out.push_back(share("exact_match_last", right_last));
  return out;
}

}  // namespace tessera::eval
