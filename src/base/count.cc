// Formats quantities as text. The unit is chosen by the rounded number, so 999.6 becomes 1 k.
#include "base/count.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace tessera {

// Inserts a comma before each group of three digits, counted from the last digit.
std::string format_count(int64_t n) {
  const std::string digits = fmt::format("{}", n);
  const size_t sign = n < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;

// Returns the number with its decimal prefix.
std::pair<double, const char*> scaled(double x) {
  constexpr std::pair<double, const char*> kPrefixes[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  // 999.6 rounds to three digits as 1 k.
  for (const auto& [size, name] : kPrefixes)
    if (x >= 0.9995 * size) return {x / size, name};
  return {x, ""};
}

std::string digits(double x) {
  // No exponent for numbers below 1000.
  return x >= 99.95 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x);
}

}  // namespace

std::string exact_text(double x) {
  std::string s = fmt::format("{}", x);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}

std::string amount_text(double x) {
  const auto [number, prefix] = scaled(x);
  return fmt::format("{}{}{}", digits(number), *prefix != 0 ? " " : "", prefix);
}

std::string rate_text(double x, const std::string& unit) {
  const auto [number, prefix] = scaled(x);
  return fmt::format("{} {}{}", digits(number), prefix, unit);
}

std::string step_text(double s) {
  if (s >= 0.999995) return fmt::format("{:.2f} s", s);
  if (s >= 0.999995e-3) return fmt::format("{:.2f} ms", s * 1e3);
  return fmt::format("{:.2f} µs", s * 1e6);
}

std::string run_text(double s) {
  if (s < 2 * kMinute) return s < 1 ? step_text(s) : fmt::format("{:.0f} s", s);
  if (s < 2 * kHour) return fmt::format("{:.1f} minutes", s / kMinute);
  if (s < 2 * kDay) return fmt::format("{:.1f} hours", s / kHour);
  return fmt::format("{:.{}f} days", s / kDay, s < 10 * kDay ? 1 : 0);
}

std::string bytes_text(int64_t bytes) {
  constexpr double kKibi = 1024, kMebi = kKibi * 1024, kGibi = kMebi * 1024;
  const auto b = static_cast<double>(bytes);
  if (b >= 0.1 * kGibi || bytes == 0) return fmt::format("{:.1f} GiB", b / kGibi);
  if (b >= 0.1 * kMebi) return fmt::format("{:.1f} MiB", b / kMebi);
  return fmt::format("{:.1f} KiB", b / kKibi);
}

std::string percent_text(double share) {
  const double percent = 100 * share;
  if (percent >= 0.05 || percent == 0) return fmt::format("{:.1f} %", percent);
  return fmt::format("{:.2g} %", percent);
}

std::string price_text(double usd) {
  if (usd < 0.01) return "less than $0.01";
  return usd < 100 ? fmt::format("${:.2f}", usd) : fmt::format("${}", amount_text(usd));
}

}  // namespace tessera
