// The range of values that a number may have.
#pragma once

#include <limits>
#include <string>

namespace tessera {

struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool or_zero = false;  // 0, which turns the feature off, is also allowed

  constexpr bool bounded() const { return *this != Range(); }
  constexpr bool contains(double x) const {
    return (x >= least && x <= most) || (or_zero && x == 0);
  }
  bool operator==(const Range&) const = default;
};

constexpr Range at_least(double least) { return {.least = least}; }
constexpr Range between(double least, double most) { return {.least = least, .most = most}; }
constexpr Range zero_or_between(double least, double most) { return {least, most, true}; }

// The normal numbers of f32 are 1.2e-38 to 3.4e38; numbers that are squared need the square root of
// these limits.
constexpr double kTiny = 1e-37, kHuge = 1e38, kTinyRoot = 1e-18, kHugeRoot = 1e18;
// The largest p for which 1 - p is not 0 in f32, with a margin.
constexpr double kBelowOne = 0.999999;
// 2^53: a double represents all integers up to this.
constexpr double kExactIntegers = 9007199254740992.0;

// Returns the range as text: "1 or more", "a value in [0, 1], or 0 to turn it off".
std::string text_of(const Range& range);

}  // namespace tessera
