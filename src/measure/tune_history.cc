// Stores the trials of `tessera tune` with the conditions that their times depend on, so that
// trials of another run, machine or version of the run file do not count.
#include "measure/tune_history.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/philox.h"
#include "measure/trial.h"
#include "tensor/cpu_features.h"
#include "train/load_run.h"

namespace tessera::measure {
namespace {

const Tree& member(const Tree& t, const char* name, const Path& path) {
  const Tree* m = t.find(name);
  if (m == nullptr) throw Error("{}: a trial has no '{}'.", path.string(), name);
  return *m;
}

// Returns true if the stored choices are those of the point. They are compared by key and text, not
// by index: the knobs of a later tuning may have another order, or more choices.
bool is_point(const plan::Space& space, const plan::Point& p, const Tree& told) {
  for (size_t k = 0; k < space.knobs.size(); ++k) {
    const Tree* choice = told.find(space.knobs[k].key);
    const std::string* text = choice == nullptr ? nullptr : choice->as_string();
    if (text == nullptr || *text != space.knobs[k].choices[p[k]]) return false;
  }
  return true;
}

Tree as_tree(const plan::Space& space, const PastTrial& trial) {
  Tree point = Tree::object(), one;
  for (size_t k = 0; k < space.knobs.size(); ++k) {
    const int choice = space.points[trial.point][k];
    point.set(space.knobs[k].key, Tree(space.knobs[k].choices[choice]));
  }
  one.set("point", std::move(point));
  one.set("outcome", Tree(std::string(plan::name_of(trial.result.outcome))));
  one.set("seconds", Tree(trial.result.seconds));
  return one;
}

std::string hash_text(const std::string& text) { return fmt::format("{:016x}", hash_name(text)); }

// Returns a hash of the keys that are equal in all trials of a tuning. layout.data is not one of
// them: it follows from the point.
std::string hash_of(const TunedRun& run, const plan::Space& space, int64_t steps) {
  std::vector<std::string> keys = run.keys;
  for (const std::string& key : trial_keys("trial", steps)) keys.push_back(key);
  config::RunConfig config = train::load_run(run.run, keys);
  Tree fixed;
  for (const Field& field : fields_of(config)) {
    const auto is_field = [&](const plan::Knob& knob) { return knob.key == field.path; };
    if (field.path != "layout.data" &&
        std::none_of(space.knobs.begin(), space.knobs.end(), is_field))
      fixed.set(field.path, field.write());
  }
  return hash_text(to_json(fixed));
}

// Returns the models of the NVIDIA GPUs. The driver lists them in /proc, without a CUDA context,
// which would use device memory that the trials need.
std::set<std::string> gpu_models() {
  std::set<std::string> models;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    const Path file = gpu.path() / "information";
    if (!std::filesystem::exists(file, none)) continue;
    std::istringstream lines(read_file(file));
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("Model:"))
        models.insert(line.substr(std::min(line.find_first_not_of(" \t", 6), line.size())));
  }
  return models;
}

std::string this_machine() {
  const CpuFeatures cpu = read_cpu_features();
  std::string text = fmt::format("{}, {} cores", cpu.model, cpu.cores);
  for (const std::string& model : gpu_models()) text += ", " + model;
  return text;
}

// Returns an empty history if there is no file.
Tree read_trials(const Path& path) {
  if (!std::filesystem::exists(path)) return Tree::list();
  Tree t = parse_json(read_file(path), path.string());
  Tree trials = member(t, "trials", path);
  if (trials.as_list() == nullptr) throw Error("{}: 'trials' is not a list.", path.string());
  return trials;
}

}  // namespace

std::vector<std::string> visible_gpus() {
  std::vector<std::string> gpus;
  if (const char* const given = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream entries(given);
    for (std::string entry; std::getline(entries, entry, ',');) gpus.push_back(entry);
    return gpus;
  }
  std::error_code none;
  for ([[maybe_unused]] const auto& gpu :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    gpus.push_back(std::to_string(gpus.size()));
  return gpus;
}

TrialConditions conditions_of(const TunedRun& run, const plan::Space& space, int64_t steps,
                              const plan::Hardware* simulated) {
  TrialConditions c;
  c.run = hash_of(run, space, steps);
  c.machine = simulated == nullptr
                  ? this_machine()
                  : fmt::format("{}, {}", simulated->name, hash_text(to_json(to_tree(*simulated))));
  c.ranks = run.ranks;
  c.steps = steps;
  c.simulated = simulated != nullptr;
  return c;
}

Tree as_tree(const plan::Space& space, const std::vector<PastTrial>& trials) {
  Tree list = Tree::list(), t;
  for (const PastTrial& trial : trials) list.push(as_tree(space, trial));
  t.set("trials", std::move(list));
  return t;
}

void add_to_history(const Path& path, const plan::Space& space, const TrialConditions& conditions,
                    const PastTrial& trial) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  Tree trials = read_trials(path), one = as_tree(space, trial), t;
  one.set("of", to_tree(conditions));
  trials.push(std::move(one));
  t.set("trials", std::move(trials));
  // Replaced as a whole (write_file renames), so a crash loses no earlier trial.
  write_file(path, to_json(t, 1) + "\n");
}

std::vector<PastTrial> read_history(const Path& path, const plan::Space& space,
                                    const TrialConditions& conditions) {
  std::vector<PastTrial> past;
  const std::string ours = to_json(to_tree(conditions));
  const Tree trials = read_trials(path);
  for (const Tree& one : *trials.as_list()) {
    const Tree& told = member(one, "point", path);
    const std::string* outcome = member(one, "outcome", path).as_string();
    const double* seconds = std::get_if<double>(&member(one, "seconds", path).value);
    if (outcome == nullptr) throw Error("{}: 'outcome' of a trial is not a string.", path.string());
    const plan::TrialResult result{plan::parse_outcome(*outcome),
                                   seconds == nullptr ? 0 : *seconds};
    if (result.outcome == plan::Outcome::kRan && !(result.seconds > 0))
      throw Error("{}: 'seconds' of a trial that ran is not positive.", path.string());
    const Tree* of = one.find("of");  // absent in a file of an older version
    if (of == nullptr || to_json(*of) != ours) continue;
    for (size_t i = 0; i < space.points.size(); ++i)
      if (is_point(space, space.points[i], told)) past.push_back({i, result});
  }
  return past;
}

}  // namespace tessera::measure
