#include "train/run_config.h"

#include <fmt/ranges.h>

#include "model/family.h"
#include "model/presets.h"

namespace tessera {
namespace {

struct SourceFields {  // one element of data.train or data.validation, as a group of keys
  std::string name, prefix;
  double weight = 1;
};

struct TrainFields : SourceFields {
  static void fields(auto& self, auto&& visit) {
    visit("prefix", self.prefix, "PREFIX.bin and PREFIX.idx");
    visit("weight", self.weight, "share of the samples");
  }
};

struct StageFields : DataStage {
  static void fields(auto& self, auto&& visit) {
    visit("from_tokens", self.from_tokens, "tokens of the run before it");
    visit("train", self.train, "as data.train");
  }
};

struct ValidationFields : SourceFields {
  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "in metrics");
    visit("prefix", self.prefix, "PREFIX.bin and PREFIX.idx");
  }
};

Place place_within(const Place& list, int line_found, int column_found) {
  const size_t column = list.at.rfind(':');
  const size_t line = column == std::string::npos ? column : list.at.rfind(':', column - 1);
  if (line_found == 0 || line == std::string::npos) return list;
  return {fmt::format("{}:{}:{}", list.at.substr(0, line), line_found, column_found), list.path};
}

// The members of one element of the list at `place`.
template <class F>
void read_members(const Tree& element, const Place& place, std::string_view wanted, F& f) {
  const Tree::Members* members = element.as_members();
  if (members == nullptr) {
    wrong_value(element, wanted, place_within(place, element.line, element.column));
  }
  std::vector<Field> known = fields_of(f);
  for (const auto& [key, member] : *members) {
    const Place at_key = place_within(place, member.key_line, member.key_column);
    const Field& field = find_field(known, key, at_key.at + ": " + place.path);
    const Place at_value = place_within(place, member.line, member.column);
    field.read(member, {at_value.at, place.path + '.' + key});
  }
}

// A list, or one element in its place.
template <class F, class Take>
void read_sources(const Tree& tree, const Place& place, std::string_view wanted, Take take) {
  const Tree::List* list = tree.as_list();
  const std::span<const Tree> elements = list != nullptr ? std::span(*list) : std::span(&tree, 1);
  for (const Tree& e : elements) {
    const Place here = place_within(place, e.line, e.column);
    F f;
    if (const std::string* s = e.as_string()) {
      f.prefix = *s;
    } else {
      read_members(e, place, wanted, f);
    }
    if (f.prefix.empty()) throw Error("{}: {}: a data set has no prefix", here.at, place.path);
    take(f, here);
  }
}

// The sizes of the preset; without one, what the family has of its own.
void start_from_preset(RunConfig& config) {
  const std::string name = config.model.preset;
  if (name.empty()) return apply_family(config.model.family, config.model);
  if (apply_preset(name, config.model)) return;
  const std::vector<std::string> names = preset_names();
  const std::string guess = nearest(name, names);
  ModelConfig near;
  std::vector<std::string> family;  // the presets of the guess's family
  if (apply_preset(guess, near))
    for (const std::string& n : names)
      if (ModelConfig other; apply_preset(n, other) && other.family == near.family)
        family.push_back(n);
  throw Error("{}: model.preset: there is no preset '{}'. {}", config.places["model.preset"], name,
              guess.empty() ? fmt::format("Known: {}", fmt::join(names, ", "))
                            : fmt::format("Did you mean '{}'? Presets of {}: {}", guess,
                                          name_of_entry(near.family), fmt::join(family, ", ")));
}

void fill_in(RunConfig& c, const Path& file) {
  if (c.run.name.empty()) c.run.name = file.stem().string();
  if (c.run.directory.empty()) c.run.directory = "runs/" + c.run.name;
  if (c.data.sequence_length == 0) c.data.sequence_length = c.model.context;
  derive_sizes(c.model);
}

}  // namespace

void read_value(const Tree& tree, std::vector<DataSource>& value, const Place& place) {
  value.clear();
  read_sources<TrainFields>(tree, place, "a PREFIX or {prefix: PREFIX, weight: NUMBER}",
                            [&](TrainFields& f, const Place&) {
                              value.push_back({f.prefix, f.weight});
                            });
}

void read_value(const Tree& tree, std::vector<DataStage>& value, const Place& place) {
  value.clear();
  const std::string_view wanted = "a list of {from_tokens: NUMBER, train: […]}";
  if (tree.as_list() == nullptr) wrong_value(tree, wanted, place);
  for (const Tree& element : *tree.as_list()) {
    StageFields stage;
    read_members(element, place, wanted, stage);
    value.push_back(stage);
  }
}

void read_value(const Tree& tree, std::vector<ValidationSource>& value, const Place& place) {
  value.clear();
  read_sources<ValidationFields>(
      tree, place, "a PREFIX or {name: NAME, prefix: PREFIX}",
      [&](ValidationFields& f, const Place& here) {
        if (f.name.empty()) f.name = Path(f.prefix).filename().string();
        for (const ValidationSource& other : value)
          if (other.name == f.name)
            throw Error("{}: {}: two sets have the name '{}'. Give one as {{name: …, prefix: {}}}.",
                        here.at, place.path, f.name, f.prefix);
        value.push_back({f.name, f.prefix});
      });
}

Tree write_value(const std::vector<DataSource>& x) {
  Tree t = Tree::list();
  for (const DataSource& s : x) {
    Tree element;
    element.set("prefix", Tree(s.prefix));
    element.set("weight", Tree(s.weight));
    t.push(std::move(element));
  }
  return t;
}

Tree write_value(const std::vector<DataStage>& x) {
  Tree t = Tree::list();
  for (const DataStage& s : x) {
    Tree element;
    element.set("from_tokens", Tree(s.from_tokens));
    element.set("train", write_value(s.train));
    t.push(std::move(element));
  }
  return t;
}

Tree write_value(const std::vector<ValidationSource>& x) {
  Tree t = Tree::list();
  for (const ValidationSource& s : x) {
    Tree element;
    element.set("name", Tree(s.name));
    element.set("prefix", Tree(s.prefix));
    t.push(std::move(element));
  }
  return t;
}

OptimizerSection optimizer_defaults(OptimizerKind kind) {
  OptimizerSection o;
  o.kind = kind;
  if (kind == OptimizerKind::kLion) o.beta2 = 0.99;
  if (kind == OptimizerKind::kSgd) o.weight_decay = 0;
  if (kind == OptimizerKind::kAdafactor) {
    o.beta1 = o.weight_decay = o.clip_norm = 0;
    o.epsilon = 1e-30;
  }
  return o;
}

RunConfig read_run(const Tree& tree, const std::string& source,
                   std::span<const std::string> overrides, const ModelConfig* model) {
  const auto read = [&](RunConfig& config) {
    const std::vector<Field> fields = fields_of(config);
    read_fields(fields, tree, source, config.places);
    for (const std::string& o : overrides) read_override(fields, parse_override(o), config.places);
  };
  RunConfig first;  // read once to learn preset and family, and again over it
  first.source = source;
  read(first);
  RunConfig config;
  config.source = source;
  config.places = first.places;
  config.model.preset = first.model.preset;
  config.model.family = first.model.family;
  config.optimizer = optimizer_defaults(first.optimizer.kind);
  if (model)
    config.model = *model;
  else
    start_from_preset(config);
  config.data.documents_apart =
      !first.data.instructions.empty() && !rule_of(config.model.family).encodes;
  read(config);
  fill_in(config, Path(source));
  return config;
}

}  // namespace tessera
