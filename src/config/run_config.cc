// Reads a run file into a RunConfig, and checks it.
//
// The file is read twice. The defaults of some keys depend on other keys (the preset, the family,
// the optimizer, the kind of data), which may come after them or on the command line. The first
// reading finds these keys; the second one starts from the right defaults.
#include "config/run_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compile/compile.h"
#include "config/foreign_keys.h"
#include "config/run_request.h"
#include "model/check_model.h"
#include "model/family.h"
#include "model/presets.h"

namespace tessera::config {
namespace {

// Sets the sizes of the preset; without one, the defaults of the family.
void start_from_preset(RunConfig& config) {
  const std::string name = config.model.preset;
  if (name.empty()) return model::apply_family(config.model.family, config.model);
  if (model::apply_preset(name, config.model)) return;
  const std::vector<std::string> names = model::preset_names();
  const std::string guess = nearest(name, names);
  model::ModelConfig near;
  // The message lists only the presets of the family that was probably meant.
  std::vector<std::string> family;  // the presets of the guess's family
  if (model::apply_preset(guess, near))
    for (const std::string& n : names)
      if (model::ModelConfig other; model::apply_preset(n, other) && other.family == near.family)
        family.push_back(n);
  throw Error("{}: model.preset: there is no preset '{}'. {}", config.places["model.preset"], name,
              guess.empty() ? fmt::format("Known: {}", fmt::join(names, ", "))
                            : fmt::format("Did you mean '{}'? Presets of {}: {}", guess,
                                          name_of_entry(near.family), fmt::join(family, ", ")));
}

bool is_on_command_line(const RunConfig& c, std::string_view key) {
  const auto at = c.places.find(key);
  return at != c.places.end() && at->second.starts_with("command line");
}

// Returns true if the sizes that tokens are counted with are valid, as errors_of() checks them.
bool are_countable(const data::BatchShape& s) {
  const auto is_valid = [](int64_t size) { return size >= 1; };
  return is_valid(s.global) && is_valid(s.sequence_length) && s.ramp_steps >= 0 &&
         std::all_of(s.ramp.begin(), s.ramp.end(), is_valid);
}

// Sets schedule.steps from schedule.tokens. On the command line, one key replaces the other.
void set_steps(RunConfig& c) {
  constexpr const char *kStepsKey = "schedule.steps", *kTokensKey = "schedule.tokens";
  ScheduleSection& s = c.schedule;
  const data::BatchShape shape = batch_shape(c, 0);
  if (s.tokens <= 0 || !are_countable(shape)) return;
  const bool steps_typed = is_on_command_line(c, kStepsKey),
             tokens_typed = is_on_command_line(c, kTokensKey);
  if (steps_typed && !tokens_typed) {
    s.tokens = 0;
    return;
  }
  const int64_t steps = shape.steps_for_tokens(s.tokens);
  if (steps != s.steps && c.places.contains(kStepsKey) && steps_typed == tokens_typed)
    throw Error(
        "{}: schedule.tokens = {} are {} steps, but schedule.steps = {} is given too. Remove one "
        "of them; on the command line, one replaces the other.",
        c.places[kTokensKey], s.tokens, steps, s.steps);
  s.steps = steps;
}

void fill_in(RunConfig& c, const Path& file) {
  if (c.run.name.empty()) c.run.name = file.stem().string();
  if (c.run.directory.empty()) c.run.directory = "runs/" + c.run.name;
  if (c.data.sequence_length == 0) c.data.sequence_length = c.model.context;
  model::derive_sizes(c.model);
  set_steps(c);
}

}  // namespace

RunConfig read_run(const Tree& tree, const std::string& source,
                   std::span<const std::string> overrides, const model::ModelConfig* model) {
  const auto read = [&](RunConfig& config) {
    const std::vector<Field> fields = fields_of(config);
    reject_foreign_keys(tree, source, fields);
    read_fields(fields, tree, source, config.places);
    for (const std::string& o : overrides) {
      const Override override = parse_override(o);
      reject_foreign_key(override, fields);
      read_override(fields, override, config.places);
    }
  };
  RunConfig first;  // read once to learn preset and family, and again over it
  first.source = source;
  read(first);
  RunConfig config;
  config.source = source;
  // Values of the first reading are discarded, except those on which defaults depend.
  config.places = first.places;
  config.model.preset = first.model.preset;
  config.model.family = first.model.family;
  config.optimizer = optimizer_defaults(first.optimizer.kind);
  if (traits_of(first.optimizer.kind).averages) config.schedule.kind = ScheduleKind::kConstant;
  if (model)
    config.model = *model;
  else
    start_from_preset(config);
  config.data.intra_document_masking =
      !first.data.instructions.empty() && !model::rule_of(config.model.family).has_encoder;
  read(config);
  fill_in(config, Path(source));
  return config;
}

namespace {

// Returns where a key was given; for a size from a preset, the place of the preset; otherwise the
// run file.
std::string place_of(const RunConfig& config, const std::string& path) {
  auto at = config.places.find(path.substr(0, path.find('[')));  // an element has its list's
  if (at == config.places.end() && path.starts_with("model."))
    at = config.places.find("model.preset");
  return at == config.places.end() ? config.source : at->second;
}

void require_none(const RunConfig& config, const KeyErrors& errors) {
  if (errors.empty()) return;
  std::string text;
  for (const KeyError& f : errors.list())
    text += fmt::format("{}{}: {} {}", text.empty() ? "" : "\n", place_of(config, f.path), f.path,
                        f.message);
  throw Error("{}", text);
}

void check_sizes(const model::ModelConfig& m, KeyErrors& errors) {
  for (const auto& [path, size] :
       {std::pair{"model.layers", m.layers}, {"model.hidden", m.hidden}, {"model.heads", m.heads}})
    if (size == 0)
      return errors.add(path, "is not given. Give it, or model.preset (such as pythia-70m).");
  errors.add_error_of([&] { model::check_model(m); });
}

// The tokens of a row are known before the data is read only if a row is one sequence.
void check_tokens_of_schedule(const RunConfig& config, KeyErrors& errors) {
  if (config.schedule.tokens == 0) return;
  if (config.model.encoder_layers > 0)
    errors.add("schedule.tokens",
               "is not supported by family {}, which has an encoder. Use schedule.steps.",
               name_of_entry(config.model.family));
  if (config.objective.has_pairs())
    errors.add("schedule.tokens",
               "is not supported by objective.kind = {}, which counts pairs. Use schedule.steps.",
               name_of_entry(config.objective.kind));
}

}  // namespace

KeyErrors errors_of(const RunConfig& config, DataUse use) {
  KeyErrors errors;
  check(config.run, errors);
  check_sizes(config.model, errors);
  // check_ranges() reads through the fields, which need a mutable struct.
  RunConfig copy = config;
  check_ranges(fields_of(copy), errors);
  if (!errors.empty()) return errors;  // the checks below need these numbers
  check(config.data, use, config, errors);
  check(config.chat, config, errors);
  check(config.batch, config, errors);
  check(config.objective, config, errors);
  check(config.optimizer, errors);
  check(config.lora, errors);
  if (!config.lora.from.empty() &&
      (config.checkpoint.from.empty() || config.checkpoint.load == Load::kAll))
    errors.add(
        "lora.from",
        "is given, which needs the base model. Set checkpoint.from to a checkpoint or Hugging "
        "Face folder, and checkpoint.load=weights");
  check(config.loss_scale, errors);
  check(config.schedule, errors);
  check_tokens_of_schedule(config, errors);
  check(config.checkpoint, config.schedule.steps, errors);
  check(config.evaluation, errors);
  check(config.metrics, errors);
  check_policies(config, errors);
  // The checks of the layout build a compile request, which needs valid sizes.
  if (errors.empty()) check_layout(config, errors);
  return errors;
}

void validate(const RunConfig& config, DataUse use) {
  require_none(config, errors_of(config, use));
}

void validate_names(const RunConfig& config) {
  const OptimizerSection& o = config.optimizer;
  if (config.lora.rank == 0 && o.freeze.empty() && o.groups.empty()) return;
  compile::CompileRequest r = compile_request(config, compile::ProgramKind::kTrain);
  r.model.vocabulary = std::max<int64_t>(r.model.vocabulary, 1);  // 0: the tokenizer's
  KeyErrors errors;
  errors.add_error_of([&] { compile::check_weight_names(r); });
  require_none(config, errors);
}

}  // namespace tessera::config
