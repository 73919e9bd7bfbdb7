// Values that other training programs use for what a key of a run file sets. A run file or a
// command line with one is answered with the value of this program.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/tree.h"

namespace tessera::config {

struct ForeignValue {
  std::string_view key, value;  // "precision", "float32"; the value in lower case
  std::string_view advice;      // text with Tessera's keys and values in backquotes
};

std::span<const ForeignValue> foreign_values();

// Returns the advice about a value of a key, without backquotes; empty if the value is not known.
// Case does not matter, and '-' counts as '_'.
std::string foreign_value_advice(std::string_view key, const Tree& value);

}  // namespace tessera::config
