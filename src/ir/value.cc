#include "ir/value.h"

#include <fmt/format.h>

namespace tessera {

std::string_view name_of(Role r) {
  constexpr std::array<std::string_view, 15> kNames = {
      "weight", "master", "gradient", "moment1", "moment2",         "factor",     "packed", "batch",
      "step",   "report", "cache",    "stream",  "stream_gradient", "activation", "scratch"};
  return kNames.at(static_cast<size_t>(r));
}

std::string full_name(const Value& v, int64_t layer) {
  const size_t dot = v.name.find('.');
  if (!(v.per & kPerLayer) || dot == std::string::npos) return v.name;
  return fmt::format("{}{}{}", v.name.substr(0, dot), layer, v.name.substr(dot));
}

}  // namespace tessera
