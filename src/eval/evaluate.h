// Runs a task: scores its examples on the ranks of a world, each some of them, and sums up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/tree.h"
#include "comm/world.h"
#include "data/tokenizer.h"
#include "eval/language_model.h"
#include "eval/task.h"

namespace tessera::eval {

struct Metric {
  std::string name;
  double value = 0;
  double error = 0;  // standard error of the value over the examples
};

// What was found of one example.
struct ExampleScore {
  int64_t line = 0;                   // of the file
  std::vector<double> log;            // ln p of each option's response
  std::vector<double> unconditional;  // the same without the question, where that is asked for
  bool greedy = false;                // last_word
  std::string written, extracted;     // exact_match
};

struct TaskResult {
  std::vector<Metric> metrics;
  std::vector<ExampleScore> examples;  // in the order of the file
};

// The metrics of a kind.
//   choice       accuracy: the option of the largest ln p is right; accuracy_length: of the largest
//                ln p / characters; accuracy_unconditional: of the largest ln p − ln p
//                unconditional
//   last_word    accuracy: the model would say it itself; perplexity: exp(−mean ln p)
//   exact_match  exact_match: the share of answers that are right
std::vector<Metric> metrics_of(const TaskSpec& spec, std::span<const Example> examples,
                               std::span<const ExampleScore> scores);

// The text that was written, as it is compared: the first match of `extract` (its first group), or
// all of it where there is none to extract; nothing where it does not match. Without what is to be
// ignored and the space around it.
std::string extract_answer(const TaskSpec& spec, const std::string& written);

// All ranks return the same, or throw the same SharedError (comm/agree.h), which names the task, if
// one of them failed. Every rank loads the whole model.
TaskResult evaluate(checkpoint::CheckpointReader& checkpoint, const data::Tokenizer& tokenizer,
                    const Task& task, comm::World& world, const ModelOptions& options);

// ---- Answers that the model writes itself, for tasks of exact match.

// The most probable text after each example's context, until a stop text, the end-of-text token or
// `max_tokens`. Of a context that is too long the beginning is left out.
std::vector<ExampleScore> write_answers(checkpoint::CheckpointReader& checkpoint,
                                        const data::Tokenizer& tokenizer, const TaskSpec& spec,
                                        std::span<const Example> examples,
                                        const ModelOptions& options);

}  // namespace tessera::eval
