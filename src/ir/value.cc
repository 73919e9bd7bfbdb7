#include "ir/value.h"

#include <fmt/format.h>

namespace tessera {

std::string_view name_of(Role r) {
  constexpr std::array<std::string_view, 15> kNames = {
      "weight", "master", "gradient", "moment1", "moment2",         "factor",     "packed", "batch",
      "step",   "report", "cache",    "stream",  "stream_gradient", "activation", "scratch"};
  return kNames.at(static_cast<size_t>(r));
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
