// Parses ranges and lists, and generates the points of a grid or of a random sample. Random numbers
// are a function of (seed, key, number of the sample), so a point does not depend on the order of
// the trials.
//
// A point that was seen before is sampled again, so n trials are n different ones; for a small
// space (a few lists) the attempts are bounded, and fewer points are returned. Each key has its own
// random stream, named by the key. Adding a key to a sweep therefore keeps the values of the
// others.
#include "sweep/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/philox.h"

namespace tessera::sweep {
namespace {

// Samples per trial before a sample of a small space counts as exhausted.
constexpr int64_t kMostDraws = 1000;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, wrong] = std::from_chars(text.data(), end, value);
  if (text.empty() || wrong != std::errc() || last != end) return std::nullopt;
  return value;
}

bool is_integer(std::string_view text) {
  text.remove_prefix(text.starts_with('-') ? 1 : 0);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Returns nothing if the text is not two numbers around "..".
std::optional<Parameter> range_of(const std::string& key, std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == text.npos) return std::nullopt;
  const std::string_view from = text.substr(0, dots), to = text.substr(dots + 2);
  const std::optional<double> low = number(from), high = number(to);
  if (!low || !high) return std::nullopt;
  if (!std::isfinite(*low) || !std::isfinite(*high) || !(*low < *high))
    throw UsageError("{}={}: expected two finite numbers, the smaller one first.", key, text);
  Parameter p;
  p.key = key;
  p.integers = is_integer(from) && is_integer(to);
  p.low = *low;
  p.high = *high;
  p.scale = *low > 0 && *high / *low >= 10 ? Scale::kLogarithmic : Scale::kLinear;
  constexpr double kMostExact = 0x1p53;
  if (p.integers && std::max(std::abs(*low), std::abs(*high)) > kMostExact)
    throw UsageError("{}={}: expected integers of at most 2^53.", key, text);
  return p;
}

std::optional<Parameter> list_of(const std::string& key, const std::string& text) {
  if (text.find(',') == text.npos) return std::nullopt;
  Parameter p;
  p.key = key;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    p.values.push_back(text.substr(at, end - at));
    if (p.values.back().empty())
      throw UsageError("{}={}: a value of the list is empty.", key, text);
    if (std::count(p.values.begin(), p.values.end(), p.values.back()) > 1)
      throw UsageError("{}={}: the value '{}' appears twice.", key, text, p.values.back());
    at = end + 1;
  }
  return p;
}

// Returns the value at `share` in [0, 1] of a range.
double at(const Parameter& p, double share) {
  if (p.scale == Scale::kLogarithmic)
    return std::clamp(p.low * std::pow(p.high / p.low, share), p.low, p.high);
  return p.low + share * (p.high - p.low);
}

// Evenly spaced on the scale, both ends included; one point is the middle. Neighbors that are equal
// as text (integers of a short range, or four digits) are dropped.
std::vector<std::string> grid_values(const Parameter& p, int64_t points) {
  if (p.scale == Scale::kList) return p.values;
  if (const std::optional<int64_t> all = p.count(); all && *all <= points) points = *all;
  std::vector<std::string> values;
  for (int64_t i = 0; i < points; ++i) {
    const double share =
        points == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(points - 1);
    const std::string value = text_of(p, at(p, share));
    if (values.empty() || values.back() != value) values.push_back(value);
  }
  return values;
}

// Integers are sampled as reals in a range that is wider by 1, and rounded down, so that on a
// linear scale each is as likely as any other.
std::string drawn(const Parameter& p, double uniform) {
  if (p.scale == Scale::kList)
    return p.values[static_cast<size_t>(uniform * static_cast<double>(p.values.size()))];
  Parameter wide = p;
  if (p.integers) wide.high += 1;
  const double value = at(wide, uniform);
  return text_of(p, p.integers ? std::min(std::floor(value), p.high) : value);
}

double uniform(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

}  // namespace

std::optional<int64_t> Parameter::count() const {
  if (scale == Scale::kList) return std::ssize(values);
  if (!integers) return std::nullopt;
  return static_cast<int64_t>(high - low) + 1;
}

std::optional<Parameter> parse_parameter(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == argument.npos || equals == 0) return std::nullopt;
  const std::string key = argument.substr(0, equals), text = argument.substr(equals + 1);
  if (text.find_first_of("[]{}\"'") != text.npos) return std::nullopt;
  if (const std::optional<Parameter> range = range_of(key, text)) return range;
  return list_of(key, text);
}

std::vector<Point> grid(const std::vector<Parameter>& parameters, int64_t points, int64_t most) {
  std::vector<Point> all = {{}};
  for (const Parameter& p : parameters) {
    const std::vector<std::string> values = grid_values(p, points);
    if (std::ssize(all) * std::ssize(values) > most)
      throw Error(
          "the grid has more than {} points. Use fewer values, --points, or --method random.",
          most);
    std::vector<Point> longer;
    for (const Point& from : all)
      for (const std::string& value : values) {
        longer.push_back(from);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<Point> sample(const std::vector<Parameter>& parameters, int64_t trials, uint64_t seed) {
  std::vector<Point> points;
  std::set<Point> seen;
  for (int64_t draw = 0; std::ssize(points) < trials && draw < kMostDraws * trials; ++draw) {
    Point point;
    for (const Parameter& p : parameters) {
      const Philox random{hash_name("sweep " + p.key, seed)};
      point.push_back(drawn(p, uniform(random.word(static_cast<uint64_t>(draw)))));
    }
    if (seen.insert(point).second) points.push_back(std::move(point));
  }
  return points;
}

// Four digits, or more where the range needs them: 0.99999 must not become 1.
std::string text_of(const Parameter& p, double value) {
  if (p.integers) return fmt::format("{:.0f}", std::round(value));
  for (int digits = 4; digits < 17; ++digits) {
    const std::string text = fmt::format("{:.{}g}", value, digits);
    const double rounded = std::strtod(text.c_str(), nullptr);
    if (p.low <= rounded && rounded <= p.high) return text;
  }
  return fmt::format("{}", value);
}

std::vector<std::string> keys_of(const std::vector<Parameter>& parameters, const Point& point) {
  std::vector<std::string> keys;
  for (size_t k = 0; k < parameters.size(); ++k) keys.push_back(parameters[k].key + "=" + point[k]);
  return keys;
}

std::string text_of(const std::vector<Parameter>& parameters, const Point& point) {
  std::string text;
  for (const std::string& key : keys_of(parameters, point)) text += (text.empty() ? "" : " ") + key;
  return text;
}

}  // namespace tessera::sweep
