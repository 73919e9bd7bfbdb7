// Names of roles and values. A weight of a stack is one value for all layers; its name in a
// checkpoint has the layer's number: "layer.norm1.gain" becomes "layer3.norm1.gain".
#include "ir/value.h"

#include <fmt/format.h>

namespace tessera {

namespace {

struct RoleName {
  std::string_view word, value;
};

// In the order of Role.
constexpr std::array<RoleName, kRoles> kRoleNames = {{{"weight", ""},
                                                      {"master", ""},
                                                      {"gradient", ""},
                                                      {"moment1", ""},
                                                      {"moment2", ""},
                                                      {"factor", ""},
                                                      {"packed", ""},
                                                      {"batch", ""},
                                                      {"batch", "batch.tokens"},
                                                      {"batch", "batch.labels"},
                                                      {"batch", "batch.positions"},
                                                      {"batch", "batch.samples"},
                                                      {"batch", "batch.documents"},
                                                      {"batch", "batch.source"},
                                                      {"step", "step"},
                                                      {"report", "report"},
                                                      {"report", "logits"},
                                                      {"cache", ""},
                                                      {"stream", ""},
                                                      {"stream_gradient", ""},
                                                      {"activation", ""},
                                                      {"scratch", ""}}};

}  // namespace

std::string_view name_of(Role r) { return kRoleNames.at(static_cast<size_t>(r)).word; }
std::string_view value_name(Role r) { return kRoleNames.at(static_cast<size_t>(r)).value; }

std::string_view suffix_of(CopyKind c) {
  constexpr std::array<std::string_view, 4> kSuffixes = {"", ".light", ".again", ".host"};
  return kSuffixes.at(static_cast<size_t>(c));
}

std::vector<WeightPart> parts_of(const Value& weight) {
  if (!weight.parts.empty()) return weight.parts;
  return {{"", 0, 0, weight.shape[0]}};
}

namespace {

std::string of_layer(const Value& v, const std::string& name, int64_t layer) {
  const size_t dot = name.find('.');
  if (!(v.per & kPerLayer) || dot == std::string::npos) return name;
  return fmt::format("{}{}{}", name.substr(0, dot), layer, name.substr(dot));
}

}  // namespace

std::string full_name(const Value& v, int64_t layer) { return of_layer(v, v.name, layer); }

const std::string& known_name(const Value& v) { return v.whole ? v.whole->name : v.name; }
std::string known_name(const Value& v, int64_t layer) { return of_layer(v, known_name(v), layer); }
const Shape& known_shape(const Value& v) { return v.whole ? v.whole->shape : v.shape; }

}  // namespace tessera
