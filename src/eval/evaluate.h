// Evaluates a task: divides its examples among the ranks, scores them and computes the metrics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/tree.h"
#include "comm/world.h"
#include "data/tokenizer.h"
#include "eval/adapted_model.h"
#include "eval/language_model.h"
#include "eval/task.h"

namespace tessera::eval {

struct Metric {
  std::string name;
  double value = 0;
  double error = 0;  // standard error of the value over the examples
};

// The result of one example.
struct ExampleScore {
  int64_t line = 0;                   // line of the example in its file
  std::vector<double> log;            // ln p of each option's response
  std::vector<double> unconditional;  // the same after TaskSpec::unconditional; empty without it
  bool greedy = false;                // last_word: the response is the model's greedy output
  std::string written, extracted;     // exact_match: the generated text, the answer in it
  std::string extracted_last;         // the answer that TaskSpec::extract_last finds
};

// The scores of examples with each of several adapters.
using ScoresOfAdapters = std::vector<std::vector<ExampleScore>>;

struct TaskResult {
  std::vector<Metric> metrics;
  std::vector<ExampleScore> examples;  // in the order of the file
};

// Whether an example is right by a metric that is the share of right examples.
struct Verdict {
  std::string metric;  // "accuracy"
  bool right = false;
  int64_t choice = -1;  // choice: index of the option with the largest value; otherwise -1
};

// Returns the verdicts on an example, the main metric first: accuracy or exact_match.
std::vector<Verdict> verdicts_of(const TaskSpec& spec, const Example& example,
                                 const ExampleScore& score);
// Returns the correct answer of an example of kind exact_match, without what the task ignores.
std::string expected_answer(const TaskSpec& spec, const Example& example);

// Returns the metrics of the task's kind. An accuracy is the share of examples that are right.
//   choice       accuracy: the correct option has the largest ln p; accuracy_length: the largest
//                ln p / characters; accuracy_unconditional: the largest ln p − ln p unconditional
//   last_word    accuracy: the response is the model's greedy output; perplexity: exp(−mean ln p)
//   exact_match  exact_match: the extracted answer equals the correct one; exact_match_last: the
//                one that `extract_last` finds does
std::vector<Metric> metrics_of(const TaskSpec& spec, std::span<const Example> examples,
                               std::span<const ExampleScore> scores);

// Returns the answer in a generated text: the first group of the first match of `extract`, an empty
// string if nothing matches, or the whole text if the task has no `extract`. What the task
// ignores and white space at both ends are removed.
std::string extract_answer(const TaskSpec& spec, const std::string& written);
// Returns the last match of `extract_last`, with the same clean-up as extract_answer(). REQUIRES:
// the task has it.
std::string extract_last_answer(const TaskSpec& spec, const std::string& written);

// Collective. Every rank loads the whole model and computes a part of the examples, or the ranks of
// options.world hold the model together and compute all examples together. Returns one result per
// entry of `adapters`, the same on all ranks. If one rank fails, throws the same SharedError
// (comm/agree.h), which names the task, on all of them. With options.world only the failing rank
// throws its Error, and the caller must end the other ranks.
std::vector<TaskResult> evaluate(checkpoint::CheckpointReader& checkpoint,
                                 const AdapterList& adapters, const data::Tokenizer& tokenizer,
                                 const Task& task, comm::World& world, const ModelOptions& options);

// ---- Generated answers, for tasks of kind exact_match.

// Generates, with each of the adapters, an answer to each example, greedily, up to a stop text, the
// end-of-text token or `max_tokens`. A context that is too long is truncated at its beginning.
// Throws Error if `max_tokens` leaves nothing of the model's context.
ScoresOfAdapters write_answers(checkpoint::CheckpointReader& checkpoint,
                               const AdapterList& adapters, const data::Tokenizer& tokenizer,
                               const TaskSpec& spec, std::span<const Example> examples,
                               const ModelOptions& options);

// Returns the most memory that write_answers() needs on this rank for a decoder-only model, in
// bytes: its part of the model and a cache for the longest texts. 0 for a model with an encoder.
int64_t answer_bytes(const model::ModelConfig& model, const ModelOptions& options);

// ---- The file of `tessera eval --examples` (example_row.cc)

// Returns the row of an example of a task: its line, whether it is right, and by its kind
//   choice       expected and choice, indices of options from 0; choice_length and
//                choice_unconditional by those metrics; log_likelihood, ln p of each option
//   last_word    expected, the response; log_likelihood
//   exact_match  expected, the correct answer; extracted, the answer in `written`, the generated
//                text; with TaskSpec::extract_last also right_last and extracted_last
Tree example_row(const TaskSpec& spec, const Example& example, const ExampleScore& score);

}  // namespace tessera::eval
