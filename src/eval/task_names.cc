// Resolves the names of tasks. The tasks that the program contains are few, so their files are
// parsed again for each name that is not exactly the name of one of them.
#include "eval/task_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/config.h"
#include "base/error.h"
#include "base/shipped_configs.h"
#include "data/instruction_template.h"

namespace tessera::eval {
namespace {

namespace fs = std::filesystem;

FoundTask shipped(const ShippedConfig& config, std::string subset = "") {
  FoundTask found{std::string(config.name), fmt::format("tasks/{}.yaml", config.name),
                  std::string(config.text), std::move(subset)};
  if (!found.subset.empty()) found.name = fmt::format("{}_{}", config.name, found.subset);
  return found;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const KnownTask& t : known_tasks()) {
    names.push_back(t.name);
    names.insert(names.end(), t.spec.aliases.begin(), t.spec.aliases.end());
  }
  return names;
}

[[noreturn]] void throw_unknown(const std::string& name) {
  const std::vector<std::string> names = known_names();
  const std::string guess = nearest(name, names);
  throw Error(
      "{}: there is no task of this name, and no such file in {}.{} Tasks: {}. `tessera eval RUN "
      "--task list` describes them; a task file has the keys of docs/evaluation.md.",
      name, fs::current_path().string(),
      guess.empty() ? "" : fmt::format(" Did you mean '{}'?", guess), fmt::join(names, ", "));
}

// Returns the command that downloads the published dataset to `file`; empty: it has no source.
std::string download_command(const TaskSpec& spec, const Path& file) {
  if (spec.dataset.empty()) return "";
  std::vector<std::string> words;
  for (size_t at = 0; at < spec.dataset.size();) {
    const size_t end = std::min(spec.dataset.find(' ', at), spec.dataset.size());
    words.push_back(fmt::format("'{}'", spec.dataset.substr(at, end - at)));
    at = end + 1;
  }
  const std::string split = words.size() > 1 ? words.back() : "'test'";
  if (words.size() > 1) words.pop_back();
  return fmt::format(
      "  python3 -c \"from datasets import load_dataset; load_dataset({}, "
      "split={}).to_json('{}')\"",
      fmt::join(words, ", "), split, file.string());
}

// Returns the candidate files of the examples. A user's task file names one; a published task also
// has files named after it and its aliases.
std::vector<std::string> file_names(const TaskSpec& spec, const std::string& task) {
  if (!spec.data.empty() && spec.dataset.empty()) return {spec.data};
  std::vector<std::string> names = {spec.data}, stems = {Path(task).stem().string()};
  stems.insert(stems.end(), spec.aliases.begin(), spec.aliases.end());
  stems.push_back(Path(spec.data).stem().string());
  for (const std::string& stem : stems)
    for (const char* suffix : {".jsonl", ".parquet"})
      if (std::ranges::find(names, stem + suffix) == names.end()) names.push_back(stem + suffix);
  return names;
}

// Returns the keys that the lines of a task need.
std::string keys_of(const TaskSpec& spec) {
  std::set<std::string> keys;
  if (!spec.gold.empty()) keys.insert(spec.gold);
  for (const std::string& text :
       {spec.form, spec.response + "{response}", spec.answer + "{response}"}) {
    const data::InstructionTemplate form(text);
    for (const std::string& name : form.names()) keys.insert(name);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

}  // namespace

std::vector<KnownTask> known_tasks() {
  std::vector<KnownTask> all;
  for (const ShippedConfig& c : shipped_configs())
    if (c.folder == "tasks") all.push_back({std::string(c.name), parse_task(shipped(c))});
  return all;
}

FoundTask find_task(const std::string& name_or_file) {
  std::error_code error;
  if (const fs::file_status file = fs::status(name_or_file, error);
      fs::exists(file) && !fs::is_directory(file))
    return {Path(name_or_file).stem().string(), name_or_file, read_file(name_or_file), ""};
  if (const ShippedConfig* c = shipped_config("tasks", name_or_file)) return shipped(*c);
  for (const KnownTask& t : known_tasks()) {
    const ShippedConfig& config = *shipped_config("tasks", t.name);
    if (std::ranges::find(t.spec.aliases, name_or_file) != t.spec.aliases.end())
      return shipped(config);
    if (!t.spec.subset_key.empty() && name_or_file.starts_with(t.name + "_"))
      return shipped(config, name_or_file.substr(t.name.size() + 1));
  }
  throw_unknown(name_or_file);
}

std::vector<Path> example_folders(const std::string& task, const std::string& folder) {
  std::error_code error;
  const Path own = Path(task).parent_path();
  // The examples of a user's task file are often next to it, whatever folder has the others.
  if (!folder.empty() && fs::is_regular_file(task, error)) return {folder, own};
  if (!folder.empty()) return {folder};
  std::vector<Path> folders = {own};
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string named = variable(kDataFolderVariable); !named.empty())
    folders.emplace_back(named);
  folders.emplace_back("eval");
  folders.emplace_back("data/eval");
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty())
    folders.push_back(Path(data) / "tessera/eval");
  else if (const std::string home = variable("HOME"); !home.empty())
    folders.push_back(Path(home) / ".local/share/tessera/eval");
  return folders;
}

Path find_examples(const TaskSpec& spec, const std::string& task, const std::string& folder) {
  const std::vector<Path> folders = example_folders(task, folder);
  const std::vector<std::string> names = file_names(spec, task);
  std::error_code error;
  for (const Path& from : folders)
    for (const std::string& name : names)
      if (fs::exists(from / name, error) || error) return from / name;
  std::vector<std::string> looked;
  for (const Path& from : folders)
    looked.push_back(from.empty() ? "the current folder" : from.string());
  const std::string command = download_command(spec, folders.front() / spec.data);
  throw Error(
      "task {}: its examples are not included in Tessera. Looked for {} in {}. Save them there as "
      "JSON lines with the keys {}, or name the folder that has them (--data DIR, "
      "${}, in a run file evaluation.data).{}",
      task, fmt::join(names, ", "), fmt::join(looked, ", "), keys_of(spec), kDataFolderVariable,
      command.empty() ? std::string()
                      : fmt::format("\nThis downloads the published dataset, which is read as it "
                                    "is:\n{}",
                                    command));
}

}  // namespace tessera::eval
