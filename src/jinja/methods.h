// The methods of strings and dictionaries.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "jinja/value.h"

namespace tessera::jinja {

class Arguments;
class Budget;

enum class MethodName : uint8_t {
  // Methods of strings.
  kCapitalize,
  kCount,
  kEndsWith,
  kFind,
  kIsDigit,
  kJoin,
  kLower,
  kLstrip,
  kReplace,
  kRsplit,
  kRstrip,
  kSplit,
  kSplitLines,
  kStartsWith,
  kStrip,
  kTitle,
  kUpper,
  // Methods of dictionaries.
  kGet,
  kItems,
  kKeys,
  kValues,
};

// Returns the method of that name; nothing if there is none.
std::optional<MethodName> find_method(std::string_view name);

// Returns true if values of the kind of `object` have that method.
bool has_method(const Value& object, MethodName name);

// Calls a method that the object has. Throws Fault.
Value call_method(const Method& method, const Arguments& arguments, Budget& budget);

}  // namespace tessera::jinja
