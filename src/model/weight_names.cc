#include "model/weight_names.h"

namespace tessera::model {

std::string quantized_name(std::string_view weight, std::string_view part,
                           std::string_view suffix) {
  constexpr std::string_view kWeight = ".weight";
  if (weight.ends_with(kWeight)) weight.remove_suffix(kWeight.size());
  std::string name(weight);
  if (!part.empty()) name.append(".").append(part);
  return name.append(suffix);
}

bool is_quantized_name(std::string_view name) {
  return name.ends_with(kNf4Codes) || name.ends_with(kNf4Scales) || name.ends_with(kNf4Levels);
}

int64_t parameters_of(std::string_view name, int64_t elements) {
  if (name.ends_with(kNf4Codes)) return 2 * elements;
  return is_quantized_name(name) ? 0 : elements;
}

}  // namespace tessera::model
