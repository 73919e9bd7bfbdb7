// Finds a task by its name, and the file of its examples.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "eval/task.h"

namespace tessera::eval {

// A task that was found by name.
struct FoundTask {
  std::string name;    // name of the results: the file's stem, or the task's own name
  std::string source;  // name of the text, for messages
  std::string text;    // the YAML
  std::string subset;  // value of TaskSpec::subset_key; empty: all examples
};

// Finds a task file, or a task that the program contains by its name, by one of its aliases, or by
// its name and a subset (mmlu_anatomy). Throws Error that lists the nearest names if there is none.
FoundTask find_task(const std::string& name_or_file);

// Parses the text of a task (read_task).
TaskSpec parse_task(const FoundTask& found);

struct KnownTask {
  std::string name;
  TaskSpec spec;
};
// Returns the tasks that the program contains, sorted by name.
std::vector<KnownTask> known_tasks();

// ---- The file of a task's examples.

constexpr const char* kDataFolderVariable = "TESSERA_EVAL_DATA";

// Returns the folders in which examples are looked for, in order: `folder`, if it is given, and
// then the folder of the task file, if `task` is one; otherwise the folder of the task file, the
// folder that $TESSERA_EVAL_DATA names, `eval` and `data/eval` in the current folder, and
// `tessera/eval` in $XDG_DATA_HOME.
std::vector<Path> example_folders(const std::string& task, const std::string& folder);

// Returns the file of the examples: TaskSpec::data, or the name of the task or an alias with .jsonl
// or .parquet, in the first folder that has one. Throws Error with the file, the folders that were
// looked in, the keys of a line and the command that downloads the dataset.
Path find_examples(const TaskSpec& spec, const std::string& task, const std::string& folder);

}  // namespace tessera::eval
