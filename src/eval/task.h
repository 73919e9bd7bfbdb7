// Evaluation tasks: a task file (as in configs/tasks) describes how to score a file of examples,
// which are JSON lines.
//
//   kind: choice                              # choice | last_word | exact_match
//   data: arc_easy.jsonl                      # next to the task file, or in --data FOLDER
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
  std::string data, form, response, gold, unconditional, shot_separator = "\n\n";
  int64_t shots = 0;
  // For exact_match only.
  std::string answer, extract;
  std::vector<std::string> stop, ignore;
  int64_t max_tokens = 256;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "how examples are scored");
    visit("data", self.data, "file of examples: JSON lines, one example per line");
    visit("form", self.form, "text that the model reads, with {names} of keys and {response}");
    visit("response", self.response, "expected response, with {names}; a list: one per option");
    visit("gold", self.gold, "choice: key of the index of the correct option, from 0");
    visit("unconditional", self.unconditional,
          "choice: context without the question, to score an option by itself");
    visit("shots", self.shots, "solved examples before each example: the first ones of the file");
    visit("shot_separator", self.shot_separator, "text between solved examples");
    visit("answer", self.answer, "exact_match: correct answer, with {names}");
    visit("extract", self.extract,
          "exact_match: regular expression; its first group is the answer in the generated text");
    visit("stop", self.stop, "exact_match: generation ends before any of these texts");
    visit("ignore", self.ignore, "exact_match: texts removed from answers before comparison");
    visit("max_tokens", self.max_tokens, "exact_match: most tokens to generate");
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
};

// Reads a task file. A name that is not a file may be that of a task that the program contains,
// such as piqa. Throws Error for unknown keys and invalid values, with file, line and column, and
// for an invalid `form` and keys that the kind requires, with the file.
TaskSpec read_task(const Path& file);

// Returns whether read_task would find `file`.
bool is_task(const Path& file);

// Returns all examples, each with its shots in front of the context (an example is never its own
// shot). Throws Error with file and line if a line is not valid JSON or lacks a key, or if `gold`
// is not the index of an option.
std::vector<Example> read_examples(const TaskSpec& spec, const Path& data);

struct Task {
  std::string name;  // name of the task file without its extension
  TaskSpec spec;
  std::vector<Example> examples;
};

struct TaskChoice {
  std::vector<std::string> files;
  std::string folder;    // folder of the examples; empty: next to each task file
  int64_t shots = -1;    // -1: each task's own
  int64_t examples = 0;  // number of examples, the first ones of each file; 0: all
};

// Reads all task files and their examples. Throws Error as read_task and read_examples do.
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

 private:
  struct Compiled;  // keeps the header of RE2 out of this one
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace tessera::eval
