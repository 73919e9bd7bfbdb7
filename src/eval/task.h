// Evaluation tasks: what a file of configs/tasks says about a JSON-lines file of examples.
//
//   kind: choice                              # choice | last_word | exact_match
//   data: arc_easy.jsonl                      # beside the task file, or in --data FOLDER
//   form: "{query}\nAnswer: {response}"       # what the model reads; names are keys of a line
//   response: "{choices}"                     # what it should say; a list: one text an option
//   gold: gold                                # the key that holds the right option's number
//
// A key that holds a list gives its i-th entry to option i, in the form as well: so sentences whose
// beginnings differ (Winogrande) are a form with "{context_options} {response}". What stands before
// {response} is the context; the white space at its end counts to the response, as tokenizers want
// it.
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
  kChoice,     // which option is most likely
  kLastWord,   // whether the response is what the model would say itself (LAMBADA)
  kExactMatch  // whether what it writes holds the answer (GSM8K)
};
constexpr const char* enum_names(TaskKind) { return "choice|last_word|exact_match"; }

struct TaskSpec {
  TaskKind kind = TaskKind::kChoice;
  std::string data, form, response, gold, unconditional, shot_separator = "\n\n";
  int64_t shots = 0;
  // of exact_match
  std::string answer, extract;
  std::vector<std::string> stop, ignore;
  int64_t max_tokens = 256;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "how it is scored");
    visit("data", self.data, "JSON lines, one example each");
    visit("form", self.form, "what the model reads, with {names} of keys and {response}");
    visit("response", self.response, "what it should say, with {names}; a list: one an option");
    visit("gold", self.gold, "choice: the key that holds the number of the right option");
    visit("unconditional", self.unconditional,
          "choice: the context without the question, for how likely an option is by itself");
    visit("shots", self.shots, "solved examples before each: the first ones of the file");
    visit("shot_separator", self.shot_separator, "between solved examples");
    visit("answer", self.answer, "exact_match: the right answer, with {names}");
    visit("extract", self.extract,
          "exact_match: regular expression; its first group is the answer that was written");
    visit("stop", self.stop, "exact_match: writing ends before any of these texts");
    visit("ignore", self.ignore, "exact_match: texts that do not count in answers");
    visit("max_tokens", self.max_tokens, "exact_match: new tokens at most");
  }
};

struct Option {
  std::string context, response;
};

struct Example {
  int64_t line = 0;             // of the file, from 1
  std::vector<Option> options;  // one, where there is nothing to choose from
  int64_t gold = 0;             // which is right
  std::string answer;           // of exact_match
};

// Reads a task file. A name that is not a file may be that of a task that the program contains,
// such as piqa. Throws Error with file, line and column for unknown keys, wrong values, a form
// without {response} and keys that the kind needs and that are missing.
TaskSpec read_task(const Path& file);

// Returns whether read_task would find `file`.
bool is_task(const Path& file);

// All examples, shots in front of each (an example is never its own shot). Throws Error, naming
// file and line, for what is no JSON, lacks a key, and a gold that is no option's number.
std::vector<Example> read_examples(const TaskSpec& spec, const Path& data);

struct Task {
  std::string name;  // of its file
  TaskSpec spec;
  std::vector<Example> examples;
};

struct TaskChoice {
  std::vector<std::string> files;
  std::string folder;    // of the examples; empty: beside each task file
  int64_t shots = -1;    // -1: each task's own
  int64_t examples = 0;  // only the first ones; 0: all
};

// As read_task and read_examples.
std::vector<Task> read_tasks(const TaskChoice& choice);

// The regular expression that finds the answer in a text that a model wrote (RE2's syntax: no
// lookahead and no backreferences). Matching takes time proportional to the text.
class AnswerPattern {
 public:
  // Throws Error with the reason for an expression that is not valid, nested too deeply or longer
  // than 4,096 bytes.
  explicit AnswerPattern(const std::string& expression);
  ~AnswerPattern();
  AnswerPattern(const AnswerPattern&) = delete;
  AnswerPattern& operator=(const AnswerPattern&) = delete;

  // Returns the first group of the first match, or the whole match if the expression has no group.
  // Returns an empty string if nothing matches.
  std::string find(std::string_view text) const;

 private:
  struct Compiled;  // the library's type stays in task.cc
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace tessera::eval
