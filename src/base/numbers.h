// Numbers as doubles: quotients of counts, and the numbers of a parsed document.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/tree.h"

namespace tessera {

// Returns part / whole. Both are exact up to 2^53.
constexpr double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Returns the value of an integer or of a real number, and nothing for other values. JSON writes
// 1.0 as 1, so that a reader of real numbers must accept both.
inline std::optional<double> number_in(const Tree& tree) {
  if (const auto* whole = std::get_if<int64_t>(&tree.value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&tree.value)) return *real;
  return std::nullopt;
}

}  // namespace tessera
