// Evaluation tasks: a task file (as in configs/tasks) describes how to score a file of examples,
// which are JSON lines.
//
//   kind: choice                              # choice | last_word | exact_match
//   data: arc_easy.jsonl                      # next to the task file, or in --data DIR
//   form: "{query}\nAnswer: {response}"       # text that the model reads; names: keys of a line
//   response: "{choices}"                     # expected response; a list: one entry per option
//   gold: gold                                # key of the index of the correct option
//
// If a key is a list, its i-th entry is used for option i, also in `form`: sentences whose
// beginnings differ (Winogrande) have the form "{context_options} {response}". The text before
// {response} is the context. White space at its end belongs to the response, as tokenizers require.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/file.h"

namespace tessera::eval {

enum class TaskKind : uint8_t {
  kChoice,     // is the correct option the most likely one?
  kLastWord,   // is the response what the model itself would generate (LAMBADA)?
  kExactMatch  // does the generated text contain the answer (GSM8K)?
};
constexpr const char* enum_names(TaskKind) { return "choice|last_word|exact_match"; }

struct TaskSpec {
  TaskKind kind = TaskKind::kChoice;
  std::string about, data, form, response, gold, unconditional, shot_separator = "\n\n";
  int64_t shots = 0;
  std::string description, shot_data, subset_key, dataset;
  std::vector<std::string> aliases, published, replace;
  // For exact_match only.
  std::string answer, extract, extract_last;
  std::vector<std::string> stop, ignore, ignore_patterns;
  int64_t max_tokens = 256;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "how examples are scored");
    visit("about", self.about, "description of the task, for people");
    visit("aliases", self.aliases, "other names of the task");
    visit("data", self.data, "file of examples: JSON lines or Parquet, one example per line");
    visit("dataset", self.dataset,
          "published dataset, for messages: name, configuration and split, separated by spaces");
    visit("published", self.published,
          "keys computed from a line of the published dataset: NAME = EXPRESSION of Jinja");
    visit("replace", self.replace,
          "regular expressions replaced in computed texts: PATTERN => TEXT");
    visit("form", self.form, "text that the model reads, with {names} of keys and {response}");
    visit("response", self.response, "expected response, with {names}; a list: one per option");
    visit("gold", self.gold, "choice: key of the index of the correct option, from 0");
    visit("unconditional", self.unconditional,
          "choice: context without the question, to score an option by itself");
    visit("description", self.description, "text before everything else, with {names}");
    visit("subset_key", self.subset_key,
          "key whose values are subsets; TASK_VALUE names one of them");
    visit("shot_data", self.shot_data,
          "file of the solved examples, of the same subset; default: the file of the examples");
    visit("shots", self.shots, "solved examples before each example: the first ones of the file");
    visit("shot_separator", self.shot_separator, "text between solved examples");
    visit("answer", self.answer, "exact_match: correct answer, with {names}");
    visit("extract", self.extract,
          "exact_match: regular expression; its first group is the answer in the generated text");
    visit("extract_last", self.extract_last,
          "exact_match: a second metric compares the last match of this regular expression");
    visit("stop", self.stop, "exact_match: generation ends before any of these texts");
    visit("ignore", self.ignore, "exact_match: texts removed from answers before comparison");
    visit("ignore_patterns", self.ignore_patterns,
          "exact_match: regular expressions removed from answers after `ignore`");
    visit("max_tokens", self.max_tokens, "exact_match: maximum number of new tokens");
  }
};

struct Option {
  std::string context, response;
};

struct Example {
  int64_t line = 0;             // line in its file, from 1
  std::vector<Option> options;  // one entry if the kind is not choice
  int64_t gold = 0;             // index of the correct option
  std::string answer;           // exact_match: the correct answer
  std::string subset;           // value of TaskSpec::subset_key
};

// Reads a task file, or a task that the program contains (find_task). Throws Error for unknown keys
// and invalid values, with file, line and column, and for an invalid `form` and keys that the kind
// requires, with the file.
TaskSpec read_task(const Path& file);

// Returns all examples, each with the description and its shots in front of the context (an example
// is never its own shot). The lines have the keys of the task, or those of the published dataset.
// Shots are those of `shots_from`, or of the same file if it is empty. Throws Error with file and
// line if a line is not valid JSON or lacks a key, or if `gold` is not the index of an option.
std::vector<Example> read_examples(const TaskSpec& spec, const Path& data,
                                   const Path& shots_from = {});

struct Task {
  std::string name;  // name of the task file without its extension, or of the task
  TaskSpec spec;
  std::vector<Example> examples;
};

struct TaskChoice {
  std::vector<std::string> files;  // task files and names of tasks
  std::string folder;              // folder of the examples; empty: see example_folders()
  int64_t shots = -1;              // -1: each task's own
  int64_t examples = 0;            // number of examples, the first ones of each file; 0: all
};

// Reads all task files and their examples. A task that is named twice, such as by its name and by
// an alias, is read once. Throws Error as read_task and read_examples do.
std::vector<Task> read_tasks(const TaskChoice& choice);

// A regular expression that finds the answer in a generated text (RE2's syntax: no lookahead and no
// backreferences). Matching takes time proportional to the length of the text.
class AnswerPattern {
 public:
  // Throws Error with the reason if the expression is invalid, nested too deeply or longer than
  // 4,096 bytes.
  explicit AnswerPattern(const std::string& expression);
  ~AnswerPattern();
  AnswerPattern(const AnswerPattern&) = delete;
  AnswerPattern& operator=(const AnswerPattern&) = delete;

  // Returns the first group of the first match, or the whole match if the expression has no group.
  // Returns an empty string if nothing matches.
  std::string find(std::string_view text) const;
  // Returns the last match, from left to right without overlaps; an empty string if there is none.
  std::string find_last(std::string_view text) const;
  // Removes all matches from `text`.
  void remove_from(std::string& text) const;

 private:
  struct Compiled;  // keeps the header of RE2 out of this one
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace tessera::eval
