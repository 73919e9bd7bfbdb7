// Reads optimizer.groups: the keys of a group are fields of the section `optimizer`, which are kept
// as they are given and read over the section's own values when those are known.
#include <algorithm>
#include <iterator>

#include "compile/graph/name_patterns.h"
#include "config/optimizer_section.h"

namespace tessera::config {
namespace {

// Keys of the section that hold for the whole run.
constexpr std::string_view kOfTheRun[] = {"learning_rate", "clip_norm", "ema",
                                          "rounding",      "freeze",    "groups"};
constexpr const char* kWanted =
    "a list of {match: [NAME, ...], learning_rate_multiplier: NUMBER, kind: ..., ...}";

// The fields that a group may give. They point into both arguments.
std::vector<Field> group_fields(OptimizerGroupSection& group, OptimizerSection& settings) {
  std::vector<Field> fields = fields_of(settings);
  std::erase_if(fields, [](const Field& f) {
    return std::find(std::begin(kOfTheRun), std::end(kOfTheRun), f.path) != std::end(kOfTheRun);
  });
  fields.push_back(
      {"match",
       tessera::type_name(group.match),
       "",
       false,
       {},
       [&](const Tree& t, const SourceLocation& p) { tessera::read_value(t, group.match, p); },
       [&] { return tessera::write_value(group.match); }});
  double& multiplier = group.learning_rate_multiplier;
  fields.push_back(
      {"learning_rate_multiplier", tessera::type_name(multiplier), "", false, between(0, 1e6),
       [&](const Tree& t, const SourceLocation& p) { tessera::read_value(t, multiplier, p); },
       [&] { return tessera::write_value(multiplier); }});
  return fields;
}

std::string path_of(size_t group, std::string_view key) {
  return fmt::format("optimizer.groups[{}].{}", group, key);
}

// Reads one group. Its settings are parsed once into an unused section, so that an error is
// reported at its place, and kept as a tree, because they are read over the settings of the
// section, which may come later in the file.
OptimizerGroupSection read_group(const Tree& element, const SourceLocation& list, size_t number) {
  const SourceLocation place = location_within(list, element.line, element.column);
  const Tree::Members* members = element.as_members();
  if (members == nullptr) wrong_value(element, kWanted, place);
  OptimizerGroupSection group;
  OptimizerSection any;
  const std::vector<Field> known = group_fields(group, any);
  for (const auto& [key, member] : *members) {
    const SourceLocation at_key = location_within(list, member.key_line, member.key_column);
    const Field& field = find_field(known, key, at_key.at + ": " + list.path);
    const SourceLocation at_value = location_within(list, member.line, member.column);
    field.read(member, {at_value.at, path_of(number, key)});
    if (key != "match" && key != "learning_rate_multiplier") group.settings.set(key, member);
  }
  if (group.match.empty())
    throw Error(
        "{}: {}: found a group without `match`, expected names of weights, such as [embed.*]",
        place.at, list.path);
  return group;
}

}  // namespace

void read_value(const Tree& tree, std::vector<OptimizerGroupSection>& value,
                const SourceLocation& place) {
  if (tree.as_list() == nullptr) wrong_value(tree, kWanted, place);
  std::vector<OptimizerGroupSection> groups;
  for (const Tree& element : *tree.as_list())
    groups.push_back(read_group(element, place, groups.size()));
  value = std::move(groups);
}

Tree write_value(const std::vector<OptimizerGroupSection>& x) {
  Tree list = Tree::list();
  for (const OptimizerGroupSection& group : x) {
    Tree element = Tree::object();
    element.set("match", tessera::write_value(group.match));
    if (group.learning_rate_multiplier != 1)
      element.set("learning_rate_multiplier", Tree(group.learning_rate_multiplier));
    for (const auto& [key, value] : *group.settings.as_members()) element.set(key, value);
    list.push(std::move(element));
  }
  return list;
}

OptimizerSection settings_of(const OptimizerGroupSection& group,
                             const OptimizerSection& optimizer) {
  const auto read = [&](OptimizerSection& settings) {
    SourceLocations unused;
    read_fields(fields_of(settings), group.settings, "optimizer.groups", unused);
  };
  // First over the settings of the section, which shows the kind of optimizer. A group of another
  // kind starts from the defaults of that kind instead, since betas and epsilon of one optimizer
  // mean nothing for another; only the settings of the whole run are kept.
  OptimizerSection settings = optimizer;
  read(settings);
  if (settings.kind == optimizer.kind) return settings;
  settings = optimizer_defaults(settings.kind);
  settings.learning_rate = optimizer.learning_rate;
  settings.clip_norm = optimizer.clip_norm;
  settings.ema = optimizer.ema;
  settings.moment_dtype = optimizer.moment_dtype;
  settings.rounding = optimizer.rounding;
  settings.freeze = optimizer.freeze;
  read(settings);
  return settings;
}

// Returns the first group that matches.
std::optional<size_t> group_of(const OptimizerSection& optimizer, std::string_view name) {
  for (size_t i = 0; i < optimizer.groups.size(); ++i)
    if (compile::matches_any(optimizer.groups[i].match, name)) return i;
  return std::nullopt;
}

namespace {

// Keys that only muon has.
constexpr std::string_view kOfMuon[] = {"momentum",
                                        "nesterov",
                                        "newton_schulz_steps",
                                        "newton_schulz_coefficients",
                                        "newton_schulz_dtype",
                                        "update_scale",
                                        "qk_clip"};

// Adds an error for each key of muon that is given to another optimizer. A group of another kind
// than the section starts with the defaults of its kind, so keys of the section do not reach it.
void check_muon_keys(const OptimizerSection& optimizer, KeyErrors& errors) {
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    const OptimizerGroupSection& group = optimizer.groups[i];
    const OptimizerKind kind = settings_of(group, optimizer).kind;
    for (const std::string_view key : kOfMuon)
      if (!traits_of(kind).matrices && group.settings.find(key) != nullptr)
        errors.add(path_of(i, key), "is a key of muon, but the group's kind is {}. Remove it.",
                   name_of_entry(kind));
  }
  if (traits_of(optimizer.kind).matrices) return;
  OptimizerSection given = optimizer, usual;
  const std::vector<Field> ours = fields_of(given), theirs = fields_of(usual);
  for (size_t i = 0; i < ours.size(); ++i)
    if (std::find(std::begin(kOfMuon), std::end(kOfMuon), ours[i].path) != std::end(kOfMuon) &&
        to_json(ours[i].write()) != to_json(theirs[i].write()))
      errors.add(
          "optimizer." + ours[i].path,
          "is a key of muon, but optimizer.kind is {}. Remove it, set optimizer.kind=muon, or move "
          "it to a group of kind muon.",
          name_of_entry(optimizer.kind));
}

// Adds an error for moments in 8 bits of an optimizer that does not support them.
void check_moments(const OptimizerSection& optimizer, KeyErrors& errors) {
  const auto wrong = [](const OptimizerSection& o) {
    return o.moment_dtype == MomentType::k8Bit && !allows_8bit_moments(traits_of(o.kind));
  };
  constexpr const char* kSupported = "adamw, lion and sgd";
  if (wrong(optimizer))
    errors.add(
        "optimizer.moment_dtype",
        "= 8bit, but optimizer.kind is {}, expected one of {}. Set optimizer.moment_dtype to "
        "auto, fp32 or bf16, or use another optimizer.",
        name_of_entry(optimizer.kind), kSupported);
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    const OptimizerSection settings = settings_of(optimizer.groups[i], optimizer);
    if (wrong(settings))
      errors.add(
          path_of(i, "moment_dtype"),
          "= 8bit, but the group's kind is {}, expected one of {}. Add moment_dtype: fp32 to "
          "the group.",
          name_of_entry(settings.kind), kSupported);
  }
}

}  // namespace

void check(const OptimizerSection& optimizer, KeyErrors& errors) {
  check_muon_keys(optimizer, errors);
  check_moments(optimizer, errors);
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    OptimizerGroupSection group = optimizer.groups[i];
    OptimizerSection settings = settings_of(group, optimizer);
    std::vector<Field> fields = group_fields(group, settings);
    for (Field& f : fields) f.path = path_of(i, f.path);
    check_ranges(fields, errors);
  }
}

OptimizerSection optimizer_defaults(OptimizerKind kind) {
  OptimizerSection o;
  o.kind = kind;
  const OptimizerTraits& traits = traits_of(kind);
  o.beta1 = traits.beta1;
  o.beta2 = traits.beta2;
  o.epsilon = traits.epsilon;
  o.weight_decay = traits.weight_decay;
  o.clip_norm = traits.clip_norm;
  return o;
}

void check(const LoraSection& lora, KeyErrors& errors) {
  if (!lora.targets.empty() && lora.rank == 0)
    errors.add("lora.targets",
               "are given, but lora.rank is 0. Set lora.rank, such as 16, or for no adapters "
               "lora.targets=[]");
  if (lora.kind != compile::AdapterKind::kLora && lora.rank == 0)
    errors.add("lora.kind",
               "= {}, but lora.rank is 0. Set lora.rank, such as 16, or lora.kind=lora",
               name_of_entry(lora.kind));
  if (lora.alpha != LoraSection().alpha && lora.rank == 0)
    errors.add(
        "lora.alpha",
        "= {}, but lora.rank is 0, so all weights are trained. Set lora.rank, such as 16, or "
        "remove lora.alpha",
        lora.alpha);
  if (lora.scaling != compile::AdapterScaling::kRank && lora.rank == 0)
    errors.add(
        "lora.scaling",
        "= {}, but lora.rank is 0, so all weights are trained. Set lora.rank, such as 16, or "
        "lora.scaling=rank",
        name_of_entry(lora.scaling));
  if (lora.quantize != compile::Quantization::kNone && lora.rank == 0)
    errors.add(
        "lora.quantize",
        "= {}, but lora.rank is 0: weights in 4 bits are not trained. Set lora.rank, such as "
        "16, or lora.quantize=none",
        name_of_entry(lora.quantize));
}

void check(const LossScaleSection& scale, KeyErrors& errors) {
  if (scale.initial < scale.min)
    errors.add("loss_scale.initial", "= {}, expected loss_scale.min = {} or more", scale.initial,
               scale.min);
}

}  // namespace tessera::config
