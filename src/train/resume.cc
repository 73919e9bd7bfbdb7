#include "train/resume.h"

#include "base/error.h"

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
         path == "run.directory" || path == "run.name" || path == "run.dump_gradients" ||
         path == "run.dump_values" || path.starts_with("metrics.") ||
         path == "data.allow_foreign_tokenizer" || path.starts_with("evaluation.");
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

std::vector<Change> model_differences(const RunConfig& config, const Tree& saved_model) {
  return differences(completed(saved_model, to_tree(ModelConfig{})), to_tree(config.model));
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
    const bool computes = c.path.starts_with("rotary") || c.path.starts_with("relative") ||
                          c.path == "parallel_residual" || c.path == "scaled_head" ||
                          c.path == "norm_epsilon" || c.path == "gelu" || c.path == "layers" ||
                          c.path == "encoder_layers" || c.path == "tied_embeddings" ||
                          c.path == "vocabulary";
    if (!computes) continue;
    c.path = "model." + c.path;
    told.push_back(std::move(c));
  }
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
