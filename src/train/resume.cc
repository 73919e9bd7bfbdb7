#include "train/resume.h"

#include "base/error.h"
#include "model/family.h"
#include "model/presets.h"

namespace tessera {
namespace {

// A run that differs here is another run: its losses would not continue the old ones.
bool changes_the_run(const std::string& path) {
  return path.starts_with("model.") || path.starts_with("data.") || path == "run.seed" ||
         path == "optimizer.kind";
}

// Where and when, not what: not worth a word.
bool is_housekeeping(const std::string& path) {
  return path.starts_with("checkpoint.") || path.starts_with("run.stop_after") ||
         path == "run.directory" || path == "run.name" || path == "model.preset" ||
         path == "run.dump_gradients" || path == "run.dump_values" ||
         path.starts_with("metrics.") || path.starts_with("evaluation.");
}

// With the keys that an older version did not know, as they are where nobody gives them.
Tree completed(const Tree& saved, const Tree& defaults) {
  if (!saved.as_members() || !defaults.as_members()) return saved;
  Tree out = saved;
  for (const auto& [key, value] : *defaults.as_members()) {
    const Tree* found = saved.find(key);
    out.set(key, found ? completed(*found, value) : value);
  }
  return out;
}

// A head's width that follows from other keys may be written down; the preset is only where the
// values came from.
Tree comparable(ModelConfig model) {
  if (model.heads > 0 && model.head_width == model.hidden / model.heads) model.head_width = 0;
  model.preset.clear();
  return to_tree(model);
}

std::vector<Change> model_differences(const RunConfig& config, const Tree& saved_model) {
  ModelConfig saved;
  Places places;
  read_fields(fields_of(saved), saved_model, "the checkpoint's header", places);
  derive_sizes(saved);
  return differences(comparable(saved), comparable(config.model));
}

// Whether a key of the model section changes what weights of the same shape compute.
bool computes(const std::string& path, const FamilyRule& family) {
  if (path.starts_with("rotary")) return family.turns;
  if (path.starts_with("relative") || path == "scaled_head") return family.encodes;
  if (path == "parallel_residual") return family.family == Family::kNeox;
  if (path == "gelu") return family.family != Family::kLlama && family.family != Family::kQwen2;
  return path == "norm_epsilon" || path == "layers" || path == "encoder_layers" ||
         path == "heads" || path == "kv_heads" || path == "head_width" || path == "family" ||
         path == "tied_embeddings" || path == "vocabulary";
}

}  // namespace

StartingPoint find_start(const RunConfig& config) {
  const CheckpointSection& rules = config.checkpoint;
  const Path own = Path(config.run.directory) / "checkpoints";
  StartingPoint start;
  if (rules.resume != Resume::kNever) {
    LatestCheckpoint latest = find_latest(own);
    start.skipped = latest.skipped;
    if (latest.found) {
      start.checkpoint = latest.found->path;
      start.resumes = true;
      return start;
    }
    if (rules.resume == Resume::kRequired)
      throw Error(
          "checkpoint.resume = required, but {} holds no whole checkpoint. Set "
          "checkpoint.resume=auto to start anew.",
          own.string());
  }
  if (!rules.from.empty()) {
    start.checkpoint = resolve_checkpoint(rules.from);
    start.load = rules.load;
  }
  return start;
}

std::vector<Change> accepted_changes(const RunConfig& config, const Tree& saved) {
  std::vector<Change> told;
  std::string refused;
  for (const Change& c : differences(completed(saved, to_tree(RunConfig{})), to_tree(config))) {
    if (is_housekeeping(c.path)) continue;
    told.push_back(c);
    if (changes_the_run(c.path))
      refused += fmt::format("\n  {} was {}, is now {}", c.path, c.before, c.after);
  }
  if (!refused.empty() && !config.checkpoint.allow_changes)
    throw Error(
        "{} holds checkpoints of another run:{}\n  Give it a directory of its own "
        "(run.directory), undo the change, or say checkpoint.allow_changes=true.",
        config.run.directory, refused);
  return told;
}

std::vector<Change> changed_computation(const RunConfig& config, const Tree& saved_model) {
  std::vector<Change> told;
  for (Change& c : model_differences(config, saved_model)) {
    if (!computes(c.path, rule_of(config.model.family))) continue;
    c.path = "model." + c.path;
    told.push_back(std::move(c));
  }
  return told;
}

std::vector<Change> accepted_model(const RunConfig& config, const Tree& saved_model,
                                   const Path& checkpoint) {
  std::vector<Change> told = changed_computation(config, saved_model);
  if (config.checkpoint.allow_changes) return told;
  std::string refused;
  for (const Change& c : told)
    // The rows of a smaller vocabulary are the first of a larger one.
    if (c.path != "model.vocabulary")
      refused += fmt::format("\n  {} is {} there, {} in this run", c.path, c.before, c.after);
  if (!refused.empty())
    throw Error(
        "{}: its model is not the one of the run file, which would compute something else with its "
        "weights:{}\n  Leave the model section out of the run file (it is then the checkpoint's), "
        "set the keys as they are there, or set checkpoint.allow_changes=true.",
        checkpoint.string(), refused);
  return told;
}

std::string other_model(const RunConfig& config, const Tree& saved_model) {
  std::string text;
  for (const Change& c : model_differences(config, saved_model))
    text += fmt::format("\n    model.{} is {} there, {} in this run", c.path, c.before, c.after);
  if (text.empty()) return text;
  return fmt::format(
      " holds another model:{}\n  Set the model as it is there, or name another checkpoint.", text);
}

}  // namespace tessera
