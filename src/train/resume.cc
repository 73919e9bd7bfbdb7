// Decides where a run starts, and which differences between a checkpoint and the run file are
// accepted.
//
// A key belongs to one of three kinds: housekeeping (ignored), keys that may change during a run
// (reported), and keys that make it another run (an error, unless checkpoint.allow_changes is set).
// Configurations are compared as trees after both were completed with defaults, so a checkpoint of
// an older version differs only in values and not in missing keys.
#include "train/resume.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "compile/compile.h"
#include "compile/graph/name_patterns.h"
#include "config/run_request.h"
#include "model/check_model.h"

namespace tessera::train {
namespace {

// Returns true for keys that make it another run: its losses would not continue the earlier ones.
bool changes_the_run(const std::string& path) {
  return path.starts_with("model.") || path.starts_with("data.") || path == "run.seed" ||
         path.starts_with("objective.") || path == "optimizer.kind";
}

// Returns true if the configuration has adapters. They are part of what the weights compute, and
// weights that no adapter of the run reads are not saved again.
bool has_adapters(const Tree& config) {
  const Tree* lora = config.as_members() ? config.find("lora") : nullptr;
  const Tree* rank = lora && lora->as_members() ? lora->find("rank") : nullptr;
  return rank && std::holds_alternative<int64_t>(rank->value) && std::get<int64_t>(rank->value) > 0;
}
// Returns true if the change is one of the order of lora.targets, which has no meaning.
bool reorders_targets(const Change& c) {
  if (c.path != "lora.targets") return false;
  const auto sorted = [&](const std::string& json) {
    std::vector<std::string> names;
    read_value(parse_json(json, c.path), names, {c.path, ""});
    std::sort(names.begin(), names.end());
    return names;
  };
  return sorted(c.before) == sorted(c.after);
}

constexpr std::string_view kKeepAdapters =
    " For other adapters, or none, merge those of the checkpoint into its weights first "
    "(`tessera checkpoint merge`), and start a new run from the result.";

// Returns true for keys that do not affect the training itself, and are not reported.
bool is_housekeeping(const std::string& path) {
  return path.starts_with("checkpoint.") || path.starts_with("run.stop_after") ||
         path == "run.time_limit" || path == "run.directory" || path == "run.name" ||
         path == "model.preset" || path == "run.dump_gradients" || path == "run.dump_values" ||
         path == "data.allow_foreign_tokenizer" || path == "lora.from" ||
         path.starts_with("metrics.") || path.starts_with("evaluation.") ||
         path.starts_with("divergence.");
}

// Returns true if the weights of a checkpoint cannot be loaded after this change. The first rows of
// a table fit a smaller vocabulary or context, and the first layers a model with fewer of them.
bool changes_shapes(const Change& c) {
  constexpr std::array<std::string_view, 11> kShapes = {"family",
                                                        "hidden",
                                                        "heads",
                                                        "kv_heads",
                                                        "head_width",
                                                        "feed_forward",
                                                        "experts",
                                                        "expert_feed_forward",
                                                        "dense_layers",
                                                        "relative_buckets",
                                                        "shared_feed_forward"};
  constexpr std::array<std::string_view, 5> kCounts = {"vocabulary", "context", "layers",
                                                       "encoder_layers", "mtp_depth"};
  if (!c.path.starts_with("model.")) return false;
  const std::string_view key = std::string_view(c.path).substr(6);
  if (key.starts_with("latent.") || std::find(kShapes.begin(), kShapes.end(), key) != kShapes.end())
    return true;
  // Decimal numbers without leading zeros: a longer one is larger.
  const bool grows = std::pair(c.before.size(), c.before) < std::pair(c.after.size(), c.after);
  return grows && std::find(kCounts.begin(), kCounts.end(), key) != kCounts.end();
}

std::string there_and_here(const Change& c) {
  return fmt::format("\n  {} is {} there, {} in this run", c.path, c.before, c.after);
}

// Returns `saved` with default values for the keys that did not exist in the version that wrote it.
Tree completed(const Tree& saved, const Tree& defaults) {
  if (!saved.as_members() || !defaults.as_members()) return saved;
  Tree out = saved;
  for (const auto& [key, value] : *defaults.as_members()) {
    const Tree* found = saved.find(key);
    out.set(key, found ? completed(*found, value) : value);
  }
  return out;
}

compile::CompileRequest training_request(const config::RunConfig& config) {
  compile::CompileRequest request = config::compile_request(config, compile::ProgramKind::kTrain);
  request.model.vocabulary = std::max<int64_t>(request.model.vocabulary, 1);  // 0: the tokenizer's
  return request;
}

// Returns the optimizer settings in a checkpoint: the kind, and the groups with their patterns and
// kinds.
config::OptimizerSection saved_optimizer(const Tree& saved) {
  config::OptimizerSection o;
  SourceLocations places;
  Tree known = Tree::object();  // other keys do not matter here
  for (const char* key : {"kind", "groups"})
    if (const Tree* value = saved.find(key)) known.set(key, *value);
  read_fields(fields_of(o), known, "the checkpoint's header", places);
  return o;
}

// Returns the optimizer of each weight of the run, as the settings of a checkpoint assign it.
// Patterns that match no weight that the run trains are ignored: those weights are not compared.
std::map<std::string, OptimizerKind> saved_optimizers(config::RunConfig config, const Tree& saved,
                                                      const std::vector<std::string>& weights) {
  config.optimizer = saved_optimizer(saved);
  for (config::OptimizerGroupSection& group : config.optimizer.groups)
    std::erase_if(group.match, [&](const std::string& pattern) {
      return std::none_of(weights.begin(), weights.end(), [&](const std::string& name) {
        return compile::matches_any({pattern}, name);
      });
    });
  return compile::optimizers_of(training_request(config));
}

// Throws Error that lists the weights whose optimizer has changed, which groups make possible.
void require_same_optimizers(const config::RunConfig& config, const Path& checkpoint,
                             const Tree& saved) {
  const compile::CompileRequest request = training_request(config);
  const auto before = saved_optimizers(config, saved, compile::trained_weights(request));
  std::string changed;
  for (const auto& [weight, is] : compile::optimizers_of(request)) {
    const auto was = before.find(weight);
    if (was != before.end() && was->second != is)
      changed += fmt::format("\n  {}: {} there, {} in this run", weight, name_of_entry(was->second),
                             name_of_entry(is));
  }
  if (!changed.empty())
    throw Error(
        "{} holds optimizer state that does not match this run's optimizers:{}\n  Set "
        "optimizer.kind and optimizer.groups so that each weight has its former optimizer, or "
        "start a new run from its weights (checkpoint.from, checkpoint.load=weights).",
        checkpoint.string(), changed);
}

// Checks the kind of optimizer: moments of another one have another meaning, although they may have
// the same names and shapes.
void require_same_optimizer(const config::RunConfig& config, const Path& checkpoint,
                            const checkpoint::CheckpointHeader& header) {
  const Tree* optimizer = header.config.as_members() ? header.config.find("optimizer") : nullptr;
  const Tree* kind = optimizer && optimizer->as_members() ? optimizer->find("kind") : nullptr;
  const std::string own = name_of_entry(config.optimizer.kind);
  const Tree* groups = optimizer && optimizer->as_members() ? optimizer->find("groups") : nullptr;
  const bool had_groups = groups != nullptr && groups->as_list() && !groups->as_list()->empty();
  if (kind == nullptr || kind->as_string() == nullptr) return;
  if (had_groups || !config.optimizer.groups.empty())
    return require_same_optimizers(config, checkpoint, *optimizer);
  if (*kind->as_string() == own) return;
  throw Error(
      "{} holds the optimizer state of {}, but optimizer.kind is {}. Set optimizer.kind={}, or "
      "start a new run from its weights (checkpoint.from, checkpoint.load=weights).",
      checkpoint.string(), *kind->as_string(), own, *kind->as_string());
}

std::vector<Change> model_differences(const config::RunConfig& config, const Tree& saved_model) {
  model::ModelConfig saved;
  SourceLocations places;
  read_fields(fields_of(saved), saved_model, "the checkpoint's header", places);
  return differences(to_tree(model::comparable(saved)), to_tree(model::comparable(config.model)));
}

Path checkpoint_of_step(const checkpoint::CheckpointNames& names, const Path& own, int64_t step) {
  std::string steps;
  for (const auto& e : names.finished) {
    if (e.step == step) return e.path;
    steps += fmt::format("{}{}", steps.empty() ? "" : ", ", e.step);
  }
  throw Error("--from-step {}: {} has no checkpoint of this step. It has {}.", step, own.string(),
              steps.empty() ? "none" : steps);
}

}  // namespace

StartingPoint find_start(const config::RunConfig& config, int64_t from_step) {
  const config::CheckpointSection& rules = config.checkpoint;
  const Path own = Path(config.run.directory) / "checkpoints";
  const checkpoint::CheckpointNames names = checkpoint::names_in(own);
  StartingPoint start;
  start.resumes = true;
  if (from_step >= 0) {
    start.candidates = {checkpoint_of_step(names, own, from_step)};
    start.goes_back = true;
    return start;
  }
  if (rules.resume != config::Resume::kNever) {
    // names.finished ascends by step; the newest checkpoint comes first here.
    for (const auto& e : names.finished) start.candidates.insert(start.candidates.begin(), e.path);
    for (const auto& e : names.unfinished) start.unfinished.push_back(e.path);
    if (!start.candidates.empty()) return start;
    // Starting from scratch silently would hide that all saved work is damaged.
    if (!names.damaged.empty())
      throw Error(
          "{}: all checkpoints are damaged ({} is the newest). Restore one of them, or set "
          "checkpoint.resume=never to start from scratch (they are then set aside).",
          own.string(), names.damaged.back().path.string());
    if (rules.resume == config::Resume::kRequired)
      throw Error(
          "checkpoint.resume = required, but {} has no complete checkpoint. Set "
          "checkpoint.resume=auto to start from scratch.",
          own.string());
  }
  // The run begins, from other weights if checkpoint.from names them.
  start.resumes = false;
  start.goes_back = rules.resume == config::Resume::kNever;
  if (!rules.from.empty()) {
    start.candidates = checkpoint::checkpoints_of(rules.from);
    start.load = rules.load;
  }
  return start;
}

std::vector<Change> accepted_changes(const config::RunConfig& config, const Tree& saved) {
  std::vector<Change> told;
  std::string refused;
  bool lora = false, other_shapes = false;
  const bool adapts = has_adapters(saved) || config.lora.rank > 0;
  for (const Change& c :
       differences(completed(saved, to_tree(config::RunConfig{})), to_tree(config))) {
    if (is_housekeeping(c.path) || reorders_targets(c)) continue;
    told.push_back(c);
    const bool adapters = adapts && c.path.starts_with("lora.");
    if (changes_the_run(c.path) || adapters)
      refused += fmt::format("\n  {} was {}, is now {}", c.path, c.before, c.after);
    lora = lora || adapters;
    other_shapes = other_shapes || changes_shapes(c);
  }
  if (!refused.empty() && !config.checkpoint.allow_changes)
    throw Error(
        "{} holds checkpoints of another run:{}\n  Set run.directory to another directory to start "
        "a new run, {}.{}",
        config.run.directory, refused,
        other_shapes
            ? "or undo the change. The saved weights have other shapes and cannot be loaded"
            : "undo the change, or set checkpoint.allow_changes=true",
        lora && has_adapters(saved) ? kKeepAdapters : "");
  return told;
}

std::vector<Change> changed_computation(const config::RunConfig& config, const Tree& saved_model) {
  std::vector<Change> told;
  for (Change& c : model_differences(config, saved_model)) {
    if (!model::changes_model(c.path, config.model.family)) continue;
    c.path = "model." + c.path;
    told.push_back(std::move(c));
  }
  return told;
}

std::vector<Change> accepted_model(const config::RunConfig& config, const Tree& saved_model,
                                   const Path& checkpoint) {
  std::vector<Change> told = changed_computation(config, saved_model);
  if (config.checkpoint.allow_changes) return told;
  std::string refused;
  for (const Change& c : told)
    // The rows of a smaller vocabulary are the first rows of a larger one.
    if (c.path != "model.vocabulary") refused += there_and_here(c);
  if (refused.empty()) return told;
  const bool other_shapes = std::any_of(told.begin(), told.end(), changes_shapes);
  throw Error(
      "{}: its model differs from the run file's, which would compute something else with these "
      "weights:{}\n  Remove the model section from the run file (the checkpoint's is then used)"
      "{}set the keys as they are there{}.",
      checkpoint.string(), refused, other_shapes ? ", or " : ", ",
      other_shapes ? "" : ", or set checkpoint.allow_changes=true");
}

void require_adapters_kept(const config::RunConfig& config, const Tree& saved,
                           const Path& checkpoint) {
  if (!has_adapters(saved) || config.checkpoint.allow_changes) return;
  std::string lost;
  for (const Change& c :
       differences(completed(saved, to_tree(config::RunConfig{})), to_tree(config)))
    if (c.path.starts_with("lora.") && !is_housekeeping(c.path) && !reorders_targets(c))
      lost += there_and_here(c);
  if (!lost.empty())
    throw Error(
        "{} holds adapters, which this run would drop or use differently:{}\n  Set these keys "
        "as they are there.{}",
        checkpoint.string(), lost, kKeepAdapters);
}

std::vector<Change> changes_since(const config::RunConfig& config, const StartingPoint& start,
                                  const Path& checkpoint,
                                  const checkpoint::CheckpointHeader& header) {
  if (!start.resumes) require_adapters_kept(config, header.config, checkpoint);
  std::vector<Change> changes = start.resumes ? accepted_changes(config, header.config)
                                              : accepted_model(config, header.model, checkpoint);
  if (start.load == config::Load::kAll) require_same_optimizer(config, checkpoint, header);
  return changes;
}

void require_suitable(const config::RunConfig& config, const StartingPoint& start) {
  if (start.candidates.empty()) return;
  try {
    const checkpoint::CheckpointReader reader(start.candidates[0]);
    changes_since(config, start, start.candidates[0], reader.header());
  } catch (const checkpoint::DamagedCheckpoint&) {
  }
}

std::string other_model(const config::RunConfig& config, const Tree& saved_model) {
  std::string text;
  for (const Change& c : model_differences(config, saved_model))
    text += fmt::format("\n    model.{} is {} there, {} in this run", c.path, c.before, c.after);
  if (text.empty()) return text;
  return fmt::format(
      " holds another model:{}\n  Set the model as it is there, or name another checkpoint.", text);
}

}  // namespace tessera::train
