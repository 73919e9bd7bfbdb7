// The search space of a tuner: all combinations of the choices of several knobs, and distances
// between choices. Numbers are compared by their logarithms, so the distance of 1 and 2 is that of
// 64 and 128; if 0 is among the choices, by log2(v + 1).
#include "plan/tune_space.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace tessera::plan {
namespace {

double number_of(const Knob& k, const std::string& choice) {
  double v = 0;
  const char* const end = choice.data() + choice.size();
  const auto [last, wrong] = std::from_chars(choice.data(), end, v);
  if (wrong != std::errc() || last != end || v < 0)
    throw Error("knob {}: choice '{}', expected a number >= 0.", k.key, choice);
  return v;
}

bool has_zero(const Knob& k) {
  return std::any_of(k.choices.begin(), k.choices.end(),
                     [&](const std::string& c) { return number_of(k, c) == 0; });
}

double height(const Knob& k, int choice) {
  const double v = number_of(k, k.choices[choice]);
  return std::log2(has_zero(k) ? v + 1 : v);
}

double range(const Knob& k) {
  double low = height(k, 0), high = low;
  for (int c = 1; c < std::ssize(k.choices); ++c) {
    low = std::min(low, height(k, c));
    high = std::max(high, height(k, c));
  }
  return high - low;
}

}  // namespace

double Space::distance(size_t knob, int a, int b) const {
  if (a == b) return 0;
  const Knob& k = knobs[knob];
  if (!k.ordered) return 1;
  const double whole = range(k);
  return whole == 0 ? 0 : std::abs(height(k, a) - height(k, b)) / whole;
}

std::string Space::text(const Point& p) const {
  std::string out;
  for (size_t k = 0; k < knobs.size(); ++k)
    out += fmt::format("{}{}={}", k == 0 ? "" : " ", knobs[k].key, knobs[k].choices[p[k]]);
  return out;
}

// Builds the combinations knob by knob: each partial point is combined with each choice of the
// next knob, so the last knob varies fastest.
Space product(std::vector<Knob> knobs) {
  Space space;
  space.points.emplace_back();
  for (const Knob& k : knobs) {
    if (k.choices.empty()) throw Error("knob {} has no choices; expected at least one.", k.key);
    if (k.ordered) has_zero(k);  // reads every choice as a number
    if (space.points.size() * k.choices.size() > kMostPoints)
      throw Error("the knobs have more than {} combinations. Remove some choices.", kMostPoints);
    std::vector<Point> longer;
    for (const Point& p : space.points)
      for (int c = 0; c < std::ssize(k.choices); ++c) {
        longer.push_back(p);
        longer.back().push_back(c);
      }
    space.points = std::move(longer);
  }
  space.knobs = std::move(knobs);
  return space;
}

}  // namespace tessera::plan
