// Numbers as people read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace tessera {

std::string format_count(int64_t n);  // 1,240 and -12,000
// NaN without its sign bit, which fmt would print as "-nan"; any other number unchanged.
inline double without_nan_sign(double x) {
  return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x;
}
inline double mib(auto bytes) { return static_cast<double>(bytes) / (1 << 20); }
inline double gib(auto bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace tessera
