// Reads the normalizer, pre_tokenizer and decoder of a tokenizer.json: each is one step or a
// Sequence of steps, which is flattened to a list. The names of kinds and behaviors in the file are
// those of our enums, so a table is not needed.
//
// A file may come from anyone, so the work of its steps is bounded when it is read: the number of
// steps, and the product of the factors by which each can lengthen a text. A chain of Replace steps
// could otherwise double a text 64 times.
#include "data/tokenizer_json_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/unicode.h"

namespace tessera::data {
namespace {

// The largest count in a decoder, such as the characters that Strip removes.
constexpr int64_t kLargestCount = 1 << 20;
// More than any published file has. Each split is a level of recursion in Splitter.
constexpr size_t kMostSteps = 64;
// The most that all steps together may lengthen a text.
constexpr double kMostGrowth = 4096;

// Returns how many times longer a text can become if `content` replaces each match.
double growth_of(const PatternText& pattern, const std::string& content) {
  const size_t match = pattern.is_expression ? 1 : pattern.text.size();
  return std::max(1.0, static_cast<double>(content.size()) / static_cast<double>(match));
}
double growth_of(const NormalizerStep& step) {
  if (step.kind == NormalizerStep::Kind::kPrepend)
    return 1 + static_cast<double>(step.content.size());
  return step.kind == NormalizerStep::Kind::kReplace ? growth_of(step.pattern, step.content) : 1;
}
double growth_of(const DecoderStep& step) {
  return step.kind == DecoderStep::Kind::kReplace ? growth_of(step.pattern, step.content) : 1;
}
double growth_of(const SplitStep& step) {
  return step.kind == SplitStep::Kind::kMetaspace
             ? 1 + static_cast<double>(step.pattern.text.size())
             : 1;
}

template <class Step>
void check_steps(const TokenizerJson& json, const Tree& at, const std::vector<Step>& steps) {
  double growth = 1;
  for (const Step& step : steps) growth *= growth_of(step);
  if (steps.size() > kMostSteps)
    json.fail(at, fmt::format("more than {} steps are not supported", kMostSteps));
  if (growth > kMostGrowth)
    json.fail(at, fmt::format("these steps can make a text {:.0e} times longer, expected at most "
                              "{:.0f}",
                              growth, kMostGrowth));
}

// Returns the value of an enum by its name in the file.
template <class E>
bool find_name(std::string_view name, E& out) {
  std::string_view names = enum_names(E{});
  for (int value = 0;; ++value) {
    const size_t end = std::min(names.find('|'), names.size());
    if (names.substr(0, end) == name) return out = static_cast<E>(value), true;
    if (end == names.size()) return false;
    names.remove_prefix(end + 1);
  }
}

template <class E>
std::string list_of_names(E) {
  std::string all;
  for (const char c : std::string_view(enum_names(E{})))
    all += c == '|' ? std::string(", ") : std::string(1, c);
  return all;
}

void check_pattern(const TokenizerJson& json, const Tree& at, const PatternText& pattern) {
  try {
    const TextPattern compiled(pattern);
  } catch (const Error& e) {
    json.fail(at, e.what());
  }
}

// Older files have str_rep and add_prefix_space.
void read_metaspace(const TokenizerJson& json, const Tree& node, SplitStep& step) {
  step.pattern = {json.text(node, "replacement"), false};
  const std::string& character = step.pattern.text;
  if (character.empty() || decode_utf8(character).bytes != std::ssize(character))
    json.fail(node, "'replacement' must be one character");
  const bool prefix = json.flag(node, "add_prefix_space", true);
  step.prepend = prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  const Tree* scheme = node.find("prepend_scheme");
  if (scheme != nullptr && !scheme->is_null()) {
    if (!find_name(json.text(node, "prepend_scheme"), step.prepend))
      json.fail(*scheme, "'prepend_scheme' must be always, first or never");
    if (!prefix && step.prepend != PrependScheme::kNever)
      json.fail(*scheme, "'prepend_scheme' contradicts 'add_prefix_space'");
  }
  step.split = json.flag(node, "split", true);
}

}  // namespace

const Tree& TokenizerJson::need(const Tree& parent, std::string_view name) const {
  const Tree* found = parent.find(name);
  if (found == nullptr) fail(parent, fmt::format("'{}' is missing", name));
  return *found;
}

const std::string& TokenizerJson::text(const Tree& parent, std::string_view name) const {
  const Tree& found = need(parent, name);
  if (found.as_string() == nullptr) fail(found, fmt::format("'{}' must be a string", name));
  return *found.as_string();
}

const Tree::List& TokenizerJson::list(const Tree& parent, std::string_view name) const {
  const Tree& found = need(parent, name);
  if (found.as_list() == nullptr) fail(found, fmt::format("'{}' must be a list", name));
  return *found.as_list();
}

bool TokenizerJson::flag(const Tree& parent, std::string_view name, bool otherwise) const {
  const Tree* found = parent.find(name);
  if (found == nullptr || found->is_null()) return otherwise;
  if (const bool* value = std::get_if<bool>(&found->value)) return *value;
  fail(*found, fmt::format("'{}' must be true or false", name));
}

size_t TokenizerJson::count(const Tree& parent, std::string_view name) const {
  const Tree& found = need(parent, name);
  const int64_t* value = std::get_if<int64_t>(&found.value);
  if (value == nullptr || *value < 0 || *value > kLargestCount)
    fail(found, fmt::format("'{}' must be an integer from 0 to {}", name, kLargestCount));
  return static_cast<size_t>(*value);
}

const std::string& TokenizerJson::kind(const Tree& node, const char* what) const {
  const Tree* type = node.find("type");
  if (type == nullptr || type->as_string() == nullptr)
    fail(node, fmt::format("the {} has no 'type'", what));
  return *type->as_string();
}

PatternText TokenizerJson::pattern(const Tree& parent) const {
  const Tree& node = need(parent, "pattern");
  const bool is_expression = node.find("Regex") != nullptr;
  const PatternText out = {text(node, is_expression ? "Regex" : "String"), is_expression};
  check_pattern(*this, node, out);
  return out;
}

void read_normalizer(const TokenizerJson& json, const Tree& node,
                     std::vector<NormalizerStep>& out) {
  if (node.is_null()) return;
  const std::string& type = json.kind(node, "normalizer");
  if (type == "Sequence") {
    for (const Tree& member : json.list(node, "normalizers")) read_normalizer(json, member, out);
    return;
  }
  NormalizerStep step;
  if (!find_name(type, step.kind))
    json.fail(node, fmt::format("normalizer '{}' is not supported, expected one of {}. Convert the "
                                "tokenizer, or give the SentencePiece model if the folder has one",
                                type, list_of_names(step.kind)));
  if (step.kind == NormalizerStep::Kind::kReplace) {
    step.pattern = json.pattern(node);
    step.content = json.text(node, "content");
  } else if (step.kind == NormalizerStep::Kind::kPrepend) {
    step.content = json.text(node, "prepend");
  } else if (step.kind == NormalizerStep::Kind::kStrip) {
    step.left = json.flag(node, "strip_left", true);
    step.right = json.flag(node, "strip_right", true);
  }
  // A repeated step of this kind has no effect.
  if (step.kind == NormalizerStep::Kind::kNfc && !out.empty() && out.back() == step) return;
  out.push_back(step);
  check_steps(json, node, out);
}

void read_decoder(const TokenizerJson& json, const Tree& node, std::vector<DecoderStep>& out) {
  if (node.is_null()) return;
  const std::string& type = json.kind(node, "decoder");
  if (type == "Sequence") {
    for (const Tree& member : json.list(node, "decoders")) read_decoder(json, member, out);
    return;
  }
  DecoderStep step;
  if (!find_name(type, step.kind))
    json.fail(node,
              fmt::format("decoder '{}' is not supported, expected ByteLevel after a ByteLevel "
                          "pre_tokenizer, otherwise one of {}",
                          type, list_of_names(step.kind)));
  if (step.kind == DecoderStep::Kind::kReplace) {
    step.pattern = json.pattern(node);
    step.content = json.text(node, "content");
  } else if (step.kind == DecoderStep::Kind::kStrip) {
    step.content = json.text(node, "content");
    if (step.content.empty()) json.fail(node, "the 'content' of Strip is empty");
    step.start = json.count(node, "start");
    step.stop = json.count(node, "stop");
  } else if (step.kind == DecoderStep::Kind::kMetaspace) {
    SplitStep same;
    read_metaspace(json, node, same);
    step.pattern = same.pattern;
    step.drops_first = same.prepend != PrependScheme::kNever;
  }
  out.push_back(step);
  check_steps(json, node, out);
}

void read_split(const TokenizerJson& json, const Tree& node, std::vector<SplitStep>& out) {
  const std::string& type = json.kind(node, "pre_tokenizer");
  SplitStep step;
  if (!find_name(type, step.kind))
    json.fail(node, fmt::format("pre_tokenizer '{}' is not supported, expected ByteLevel or one of "
                                "{}",
                                type, list_of_names(step.kind)));
  const auto read_behavior = [&] {
    if (!find_name(json.text(node, "behavior"), step.behavior))
      json.fail(node, fmt::format("'behavior' must be one of {}", list_of_names(step.behavior)));
  };
  if (step.kind == SplitStep::Kind::kSplit) {
    step.pattern = json.pattern(node);
    step.invert = json.flag(node, "invert", false);
    read_behavior();
  } else if (step.kind == SplitStep::Kind::kPunctuation) {
    if (node.find("behavior") != nullptr) read_behavior();
  } else if (step.kind == SplitStep::Kind::kDigits) {
    if (!json.flag(node, "individual_digits", false)) step.behavior = SplitBehavior::kContiguous;
  } else if (step.kind == SplitStep::Kind::kMetaspace) {
    read_metaspace(json, node, step);
  }
  out.push_back(step);
  check_steps(json, node, out);
}

}  // namespace tessera::data
