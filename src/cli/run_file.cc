// Opens the RUN argument of a command line. A configuration has these layers, in order of
// precedence: the command line, the keys of --small, the run file, the preset, the defaults. For a
// run directory, its run.yaml is read with `run.directory` set to the directory, so that the
// directory can be moved.
#include "cli/run_file.h"

#include "base/error.h"
#include "cli/rank.h"
#include "config/run_config.h"
#include "data/indexed_dataset.h"
#include "data/samples.h"
#include "eval/task_names.h"
#include "train/load_run.h"

namespace tessera::cli {

namespace {

// Returns the run.yaml of a run directory. Throws Error if there is none.
Path run_file_in(const Path& folder) {
  const Path file = folder / "run.yaml";
  if (!std::filesystem::exists(file))
    throw Error(
        "{}: is a folder without run.yaml. Give a run file, or the directory of a run that has "
        "started.",
        folder.string());
  return file;
}

bool is_readable(const std::string& prefix) {
  std::error_code error;
  return std::filesystem::exists(prefix + ".idx", error);
}

// Returns true if data.split leaves enough data of every dataset for validation. A dataset that
// cannot be read counts as sufficient, since the run reports it later.
bool split_suffices(const config::RunConfig& config) {
  constexpr int kValidation = 1;
  for (const config::DataSource& source : config.data.train) {
    if (!is_readable(source.prefix)) continue;
    const data::IndexedDataset data(source.prefix);
    const data::SequenceRange range =
        data::split_range(config.data.split, kValidation, data.sequences());
    // Whether the split has a validation part is tested with a large dataset. A sample needs two
    // tokens, an input and its target.
    const bool asked = data::split_range(config.data.split, kValidation, 1'000'000).size() > 0;
    if (asked && data.first_token(range.end) - data.first_token(range.begin) < 2) return false;
  }
  return true;
}

// Returns the keys that remove missing validation data from a scaled-down run, whose training data
// are given on the command line. Rank 0 prints a note for each.
std::vector<std::string> without_missing_validation(const config::RunConfig& small) {
  std::vector<std::string> keys;
  const auto leave_out = [&](const std::string& key, const std::string& why) {
    keys.push_back(key);
    if (read_rank_info().rank == 0) fmt::print(stderr, "note: --small: {}\n", why);
  };
  const auto given = [&](const char* key) {
    const auto at = small.places.find(key);
    return at != small.places.end() && at->second == "command line";
  };
  for (const config::ValidationSource& v : small.data.validation)
    if (small.data.instructions.empty() && !given("data.validation") && !is_readable(v.prefix)) {
      leave_out("data.validation=[]",
                fmt::format("the recipe's validation data {} do not exist, so this run does not "
                            "validate. Give your own data with data.validation=[PREFIX].",
                            v.prefix));
      return keys;
    }
  if (!small.data.split.empty() && small.data.validation.empty() && !given("data.split") &&
      !split_suffices(small))
    leave_out("data.split=",
              fmt::format("data.split={} leaves no document for validation, because a plain text "
                          "file is one document. This run does not validate. To validate, build "
                          "the data with `tessera data build --split paragraphs`.",
                          small.data.split));
  return keys;
}

}  // namespace

config::RunConfig open_run(const std::string& argument, std::span<const std::string> given,
                           bool small, config::DataUse use) {
  std::vector<std::string> overrides(given.begin(), given.end());
  Path path = argument;
  // A run directory with a trailing slash has an empty last component.
  if (std::filesystem::is_directory(path)) {
    if (!path.has_filename()) path = path.parent_path();
    overrides.insert(overrides.begin(), "run.directory=" + path.string());
    path = run_file_in(path);
  }
  const train::RunFile file = train::read_run_file(path);
  config::RunConfig config = train::load_run(file, overrides);
  if (small) {
    // The keys of --small are derived from the file without overrides and applied before them, so
    // that the command line takes precedence. The configuration is loaded once more if validation
    // data are missing.
    std::vector<std::string> keys = config::scaled_down_run(train::load_run(file, {}));
    keys.insert(keys.end(), overrides.begin(), overrides.end());
    config = train::load_run(file, keys);
    const std::vector<std::string> less = without_missing_validation(config);
    keys.insert(keys.end(), less.begin(), less.end());
    if (!less.empty()) config = train::load_run(file, keys);
  }
  config::validate(config, use);
  config::validate_names(config);
  return config;
}

namespace {

[[noreturn]] void throw_missing(const std::string& key, const std::string& file,
                                const std::string& hint) {
  const Path path(file);
  if (path.is_absolute()) throw Error("{} = {}: there is no such file.{}", key, file, hint);
  throw Error("{} = {}: not found in {}. Paths are relative to the current folder.{}", key, file,
              std::filesystem::current_path().string(), hint);
}

}  // namespace

void require_file(const std::string& key, const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) throw_missing(key, file, "");
}

void require_task(const std::string& key, const std::string& name) {
  try {
    eval::find_task(name);
  } catch (const Error& e) {
    throw Error("{} = {}", key, e.what());
  }
}

void require_layout(const config::RunConfig& config, const char* verb) {
  if (!config.layout_search.search) return;
  throw Error(
      "{}: with layout.search = true the layout is chosen when the ranks start, but `tessera {}` "
      "needs it now. `tessera plan RUN --cluster C --devices N` prints the keys of the best "
      "layout. Add them, and layout.search=false.",
      config.source, verb);
}

}  // namespace tessera::cli
