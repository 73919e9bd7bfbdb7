// Reads and checks the section `data`: lists of datasets, which may be given as a prefix or as
// groups of keys, and the rules between objectives, families and kinds of data.
//
// A list accepts three spellings of an element: a prefix, a group of keys, or a single element
// instead of a list. All are read to the same structure and written in the longest form, so a
// resolved run file reads back as the same configuration.
#include "config/data_section.h"

#include <algorithm>
#include <charconv>

#include "base/tree.h"
#include "base/utf8.h"
#include "config/run_config.h"
#include "data/span_corruption.h"
#include "model/family.h"

namespace tessera::config {
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

struct StageFields : BlendStageConfig {
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

// Reads the members of one element of the list at `place`.
template <class F>
void read_members(const Tree& element, const SourceLocation& place, std::string_view wanted, F& f) {
  const Tree::Members* members = element.as_members();
  if (members == nullptr) {
    wrong_value(element, wanted, location_within(place, element.line, element.column));
  }
  std::vector<Field> known = fields_of(f);
  for (const auto& [key, member] : *members) {
    const SourceLocation at_key = location_within(place, member.key_line, member.key_column);
    const Field& field = find_field(known, key, at_key.at + ": " + place.path);
    const SourceLocation at_value = location_within(place, member.line, member.column);
    field.read(member, {at_value.at, place.path + '.' + key});
  }
}

// Reads a list, or a single element in its place.
template <class F, class Take>
void read_sources(const Tree& tree, const SourceLocation& place, std::string_view wanted,
                  Take take) {
  const Tree::List* list = tree.as_list();
  const std::span<const Tree> elements = list != nullptr ? std::span(*list) : std::span(&tree, 1);
  for (const Tree& e : elements) {
    const SourceLocation here = location_within(place, e.line, e.column);
    F f;
    if (const std::string* s = e.as_string()) {
      f.prefix = *s;
    } else {
      read_members(e, place, wanted, f);
    }
    if (f.prefix.empty()) throw Error("{}: {}: a dataset has no prefix", here.at, place.path);
    take(f, here);
  }
}

// Range of a weight: results of arithmetic on weights stay far from the limits of f64.
constexpr Range kWeights = between(1e-12, 1e12);

void check_weights(const char* path, const std::vector<DataSource>& sources, KeyErrors& errors) {
  for (const DataSource& s : sources)
    if (!kWeights.contains(s.weight))
      errors.add(path, "has {} with weight {}, expected {}", s.prefix, s.weight, text_of(kWeights));
}

constexpr size_t kLongestName = 100;  // characters

// Returns the beginning of a name in quotes, with escapes.
std::string shown_name(std::string_view name) {
  std::string start;
  for (size_t i = 0, characters = 0; i < name.size() && characters < 40; ++characters) {
    const size_t bytes = std::max<size_t>(utf8_length(name, i), 1);
    start += name.substr(i, bytes);
    i += bytes;
  }
  return to_json(Tree(start + (start.size() < name.size() ? "…" : "")));
}

// A name is part of lines of the log and of tables.
void check_names(const std::vector<ValidationSource>& sources, KeyErrors& errors) {
  for (const ValidationSource& s : sources) {
    const size_t characters = count_characters(s.name);
    const bool fits_line =
        s.name.find_first_of("\n\t") == s.name.npos && printable(s.name) == s.name;
    if (!fits_line)
      errors.add("data.validation",
                 "has the name {}, expected one line of text without control characters. Give "
                 "another as {{name: …, prefix: …}}.",
                 shown_name(s.name));
    else if (characters > kLongestName)
      errors.add("data.validation",
                 "has the name {}, which has {} characters, expected at most {}. Give another as "
                 "{{name: …, prefix: …}}.",
                 shown_name(s.name), characters, kLongestName);
  }
}

void check_stages(const DataSection& d, KeyErrors& errors) {
  // Stage 0 is data.train, from token 0.
  int64_t last = 0;
  for (const BlendStageConfig& stage : d.stages) {
    if (stage.from_tokens <= last)
      errors.add(
          "data.stages",
          "has a stage from token {} after {}, expected ascending numbers above 0: data.train "
          "is the first",
          stage.from_tokens, last);
    if (stage.train.empty())
      errors.add("data.stages", "has a stage from token {} without `train`", stage.from_tokens);
    check_weights("data.stages", stage.train, errors);
    last = stage.from_tokens;
  }
}

// Instructions and token datasets exclude each other: a run reads one of them.
void check_instructions(const DataSection& d, KeyErrors& errors) {
  if (d.instructions.empty()) {
    if (!d.form.empty()) errors.add("data.template", "is given, but no data.instructions.");
    return;
  }
  if (!d.train.empty() || !d.stages.empty())
    errors.add("data.instructions", "and data.train are both given, expected one of them.");
  if (!d.form.empty() && d.form.find("{response}") == d.form.npos)
    errors.add("data.template",
               "= '{}' has no {{response}}, so nothing would be learned. Expected a text such as "
               "'Question: {{prompt}}\nAnswer: {{response}}'.",
               d.form);
}

// Checks the pairs that an encoder and a decoder are fine-tuned on.
void check_pairs(const DataSection& d, const model::ModelConfig& model, KeyErrors& errors) {
  if (d.instructions.empty())
    return errors.add(
        "data.objective",
        "= next_token, but family {} has an encoder. Use span_corruption, or pairs as "
        "data.instructions.",
        name_of_entry(model.family));
  if (d.form.empty())
    return errors.add(
        "data.template",
        "is not given, but chat templates require a decoder-only model and family {} has an "
        "encoder. Expected a text such as 'Question: {{prompt}}\nAnswer: {{response}}'.",
        name_of_entry(model.family));
  if (d.target_length == 0)
    return errors.add("data.target_length",
                      "is not given, expected the longest response in tokens.");
  if (d.target_length > model.context)
    errors.add("data.target_length", "= {} is longer than model.context = {}.", d.target_length,
               model.context);
}

// Checks span corruption, whose lengths of inputs and targets follow from each other: the sequence
// length determines the number of target tokens.
void check_spans(const DataSection& d, const model::ModelConfig& model, KeyErrors& errors) {
  if (!d.instructions.empty())
    errors.add("data.objective",
               "= span_corruption requires data.train instead of data.instructions.");
  if (model.encoder_layers == 0)
    return errors.add(
        "data.objective",
        "= span_corruption needs an encoder, but family {} has no encoder. Use next_token.",
        name_of_entry(model.family));
  try {
    const int64_t targets =
        data::fit_spans(d.sequence_length, {d.noise_density, d.mean_span}).targets;
    if (d.target_length > 0 && d.target_length != targets)
      errors.add("data.target_length", "= {}, but span corruption makes targets of {}. Remove it.",
                 d.target_length, targets);
  } catch (const Error& e) {
    errors.add("data.objective", "= span_corruption does not fit data.sequence_length = {}: {}",
               d.sequence_length, e.what());
  }
}

// Checks the objective against the family. A decoder predicts next tokens; an encoder-decoder model
// needs two texts per row, from span corruption or from pairs.
void check_objective(const DataSection& d, const model::ModelConfig& model, KeyErrors& errors) {
  const bool encodes = model.encoder_layers > 0;
  const bool spans = d.objective == Objective::kSpanCorruption;
  if (d.intra_document_masking && encodes)
    errors.add("data.intra_document_masking",
               "= true, but family {} reads one text per row. Remove it.",
               name_of_entry(model.family));
  else if (d.intra_document_masking && model.rope_scaling.rope_type == model::RopeType::kLongrope &&
           d.sequence_length > model.rope_scaling.original_max_position_embeddings)
    errors.add("data.intra_document_masking",
               "= true is not supported by rope_scaling.rope_type = longrope in sequences longer "
               "than rope_scaling.original_max_position_embeddings = {}: its frequencies would "
               "depend on the longest document.",
               model.rope_scaling.original_max_position_embeddings);
  else if (d.intra_document_masking && spans)
    errors.add("data.intra_document_masking",
               "is supported only with data.objective = next_token, not with span_corruption.");
  if (!encodes && d.target_length > 0)
    errors.add("data.target_length", "= {}, but family {} has no encoder.", d.target_length,
               name_of_entry(model.family));
  if (spans)
    check_spans(d, model, errors);
  else if (encodes)
    check_pairs(d, model, errors);
}

// Returns true if the text is one to three shares that are not all zero.
bool is_split(const std::string& text) {
  constexpr double kLargest = 1e12;
  // Shares are read as numbers and not as percentages, because only their ratios matter.
  double sum = 0;
  const char* end = text.data() + text.size();
  const char* p = text.data();
  for (int part = 0; part < 3; ++part) {
    double x = -1;
    const auto [rest, status] = std::from_chars(p, end, x);
    if (status != std::errc() || !(x >= 0 && x <= kLargest)) return false;
    sum += x;
    // One or two shares are enough: those missing are 0.
    if (rest == end) return sum > 0;
    if (*rest != ',') return false;
    p = rest + 1;  // after the comma
  }
  return false;
}

}  // namespace

void read_value(const Tree& tree, std::vector<DataSource>& value, const SourceLocation& place) {
  value.clear();
  read_sources<TrainFields>(tree, place, "a PREFIX or {prefix: PREFIX, weight: NUMBER}",
                            [&](TrainFields& f, const SourceLocation&) {
                              value.push_back({f.prefix, f.weight});
                            });
}

void read_value(const Tree& tree, std::vector<BlendStageConfig>& value,
                const SourceLocation& place) {
  value.clear();
  const std::string_view wanted = "a list of {from_tokens: NUMBER, train: […]}";
  if (tree.as_list() == nullptr) wrong_value(tree, wanted, place);
  for (const Tree& element : *tree.as_list()) {
    StageFields stage;
    read_members(element, place, wanted, stage);
    value.push_back(stage);
  }
}

void read_value(const Tree& tree, std::vector<ValidationSource>& value,
                const SourceLocation& place) {
  value.clear();
  read_sources<ValidationFields>(
      tree, place, "a PREFIX or {name: NAME, prefix: PREFIX}",
      [&](ValidationFields& f, const SourceLocation& here) {
        // The name in metrics is the file name of the prefix unless one is given, so it must be
        // unique.
        if (f.name.empty()) f.name = Path(f.prefix).filename().string();
        for (const ValidationSource& other : value)
          if (other.name == f.name)
            throw Error(
                "{}: {}: two datasets have the name '{}'. Give one as {{name: …, prefix: {}}}.",
                here.at, place.path, f.name, f.prefix);
        value.push_back({f.name, f.prefix});
      });
}

// The resolved configuration always has the long form, with one group of keys per dataset.
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

Tree write_value(const std::vector<BlendStageConfig>& x) {
  Tree t = Tree::list();
  for (const BlendStageConfig& s : x) {
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

void check(const DataSection& d, DataUse use, const RunConfig& run, KeyErrors& errors) {
  if (use == DataUse::kRead && d.train.empty() && d.instructions.empty())
    errors.add("data.train",
               "is not given. Build a dataset with `tessera data build` and name it.");
  check_weights("data.train", d.train, errors);
  check_names(d.validation, errors);
  check_stages(d, errors);
  check_instructions(d, errors);
  check_objective(d, run.model, errors);
  if (d.sequence_length > run.model.context)
    errors.add(
        "data.sequence_length",
        "= {} is longer than model.context = {}. Raise the context or shorten the sequences.",
        d.sequence_length, run.model.context);
  if (!d.split.empty() && !is_split(d.split))
    errors.add("data.split",
               "= '{}', expected shares of train, validation and test such as 969,30,1", d.split);
}

}  // namespace tessera::config
