#include "base/shape.h"

#include <fmt/ranges.h>

namespace tessera {

std::string to_string(const Shape& s) { return fmt::format("[{}]", fmt::join(s.dims(), ", ")); }

}  // namespace tessera
