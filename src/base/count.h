// Formats numbers for people.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace tessera {

std::string format_count(int64_t n);  // 1,240 and -12,000
// Returns NaN without its sign bit, which fmt would print as "-nan"; any other number unchanged.
inline double without_nan_sign(double x) {
  return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x;
}
inline double mib(auto bytes) { return static_cast<double>(bytes) / (1 << 20); }
inline double gib(auto bytes) { return static_cast<double>(bytes) / (1 << 30); }

// Returns the shortest digits that are read back as the same number, with a point or an exponent,
// so that they are not read as an integer: "1.0", "0.1", "1e-08".
std::string exact_text(double x);
// Returns three digits and a decimal prefix: "1.19 M", "20 T", "450".
std::string amount_text(double x);
// Returns the same with a unit: "450 GB/s", "989 TFLOP/s", "12 B/s".
std::string rate_text(double x, const std::string& unit);
// Returns the time of a step with two decimals: "30.80 s", "1.24 ms", "3.50 µs".
std::string step_text(double seconds);
// Returns the time of a run: "194 days", "12.5 hours", "3.4 minutes", "10 s".
std::string run_text(double seconds);
// Returns a size: "79.1 GiB", "512.0 MiB", "3.1 KiB".
std::string bytes_text(int64_t bytes);
// Returns a percentage: "31.9 %"; with two significant digits if it would be "0.0 %".
std::string percent_text(double share);
// Returns a price: "$1.2 k"; "less than $0.01" below a cent.
std::string price_text(double usd);

}  // namespace tessera
