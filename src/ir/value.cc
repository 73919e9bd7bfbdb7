// Names of roles and values. A weight of a stack is one value for all layers; its name in a
// checkpoint contains the layer's number: "layer.norm1.gain" becomes "layer3.norm1.gain".
#include "ir/value.h"

#include <fmt/format.h>

namespace tessera {
namespace {

struct RoleName {
  std::string_view word, value;
};

// In the order of Role.
constexpr EnumArray<Role, RoleName> kRoleNames = {RoleName{"weight", ""},
                                                  RoleName{"master", ""},
                                                  RoleName{"gradient", ""},
                                                  RoleName{"moment1", ""},
                                                  RoleName{"moment2", ""},
                                                  RoleName{"iterate", ""},
                                                  RoleName{"average", ""},
                                                  RoleName{"moment1_scale", ""},
                                                  RoleName{"moment2_scale", ""},
                                                  RoleName{"factor", ""},
                                                  RoleName{"packed", ""},
                                                  RoleName{"batch", ""},
                                                  RoleName{"batch", "batch.tokens"},
                                                  RoleName{"batch", "batch.labels"},
                                                  RoleName{"batch", "batch.positions"},
                                                  RoleName{"batch", "batch.samples"},
                                                  RoleName{"batch", "batch.documents"},
                                                  RoleName{"batch", "batch.mtp_tokens"},
                                                  RoleName{"batch", "batch.mtp_labels"},
                                                  RoleName{"batch", "batch.answers"},
                                                  RoleName{"batch", "batch.references"},
                                                  RoleName{"batch", "batch.source"},
                                                  RoleName{"step", "step"},
                                                  RoleName{"report", "report"},
                                                  RoleName{"max_scores", ""},
                                                  RoleName{"report", "logits"},
                                                  RoleName{"cache", ""},
                                                  RoleName{"stream", ""},
                                                  RoleName{"stream_gradient", ""},
                                                  RoleName{"activation", ""},
                                                  RoleName{"scratch", ""}};

}  // namespace

std::string_view name_of(Role r) { return kRoleNames.at(r).word; }
std::string_view value_name(Role r) { return kRoleNames.at(r).value; }

std::string_view suffix_of(CopyKind c) {
  constexpr EnumArray<CopyKind, std::string_view> kSuffixes = {"", ".forward_no_save", ".recompute",
                                                               ".host"};
  return kSuffixes.at(c);
}

std::vector<WeightPart> parts_of(const Value& weight) {
  if (!weight.parts.empty()) return weight.parts;
  return {{"", 0, 0, weight.shape[0]}};
}

namespace {

std::string of_layer(const Value& v, const std::string& name, int64_t layer) {
  const size_t dot = name.find('.');
  if (!(v.indexed_by & kPerLayer) || dot == std::string::npos) return name;
  return fmt::format("{}{}{}", name.substr(0, dot), layer, name.substr(dot));
}

}  // namespace

std::string full_name(const Value& v, int64_t layer) { return of_layer(v, v.name, layer); }

const std::string& checkpoint_name(const Value& v) { return v.parent ? v.parent->name : v.name; }
std::string checkpoint_name(const Value& v, int64_t layer) {
  return of_layer(v, checkpoint_name(v), layer);
}
const Shape& checkpoint_shape(const Value& v) { return v.parent ? v.parent->shape : v.shape; }

}  // namespace tessera
