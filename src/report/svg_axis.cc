// Ticks at round numbers: the step is the smallest of 1, 2 or 5 times a power of ten that gives at
// most six ticks.
#include "report/svg_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace tessera::report {
namespace {

constexpr double kCharacter = 6.8;  // width of a digit at a font size of 12, in pixels
constexpr double kGap = 8;          // pixels between two labels
constexpr double kMargin = 0.05;    // share of the range
constexpr double kIntervals = 5;    // at most, between ticks
constexpr size_t kMostLogTicks = 7;
constexpr double kRounding = 1e-9;  // in steps: a range ends at a tick in spite of rounding

double round_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / kIntervals)));
  for (const double factor : {1, 2, 5})
    if (factor * power * kIntervals >= range * (1 - kRounding)) return factor * power;
  return 10 * power;
}

Tick log_tick(double value) { return {std::log10(value), fmt::format("{:.6g}", value)}; }

}  // namespace

void SvgAxis::cover(double x) {
  if (!std::isfinite(x)) return;
  if (empty_) low_ = high_ = x;
  low_ = std::min(low_, x), high_ = std::max(high_, x);
  empty_ = false;
}

void SvgAxis::add_margin() {
  const double margin = kMargin * (high_ - low_);
  low_ -= margin, high_ += margin;
}

double SvgAxis::at(double x) const {
  return high_ > low_ ? from_ + (x - low_) / (high_ - low_) * (to_ - from_) : (from_ + to_) / 2;
}

std::vector<Tick> round_ticks(double low, double high) {
  if (!(high > low)) return {{low, fmt::format("{:.6g}", low)}};
  const double step = round_step(high - low);
  std::vector<Tick> ticks;
  for (double n = std::ceil(low / step - kRounding); n * step <= high + kRounding * step; ++n)
    // 0.0 and not -0.0; six digits hide that n * step is rounded.
    ticks.push_back({n * step, fmt::format("{:.6g}", n == 0 ? 0.0 : n * step)});
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  std::vector<Tick> ticks, powers;
  if (!std::isfinite(low) || !std::isfinite(high)) return ticks;
  const auto is_inside = [&](const Tick& t) {
    return t.value >= low - kRounding && t.value <= high + kRounding;
  };
  for (double power = std::floor(low); power <= high; ++power)
    for (const double factor : {1, 2, 5}) {
      const Tick tick = log_tick(factor * std::pow(10, power));
      if (!is_inside(tick)) continue;
      ticks.push_back(tick);
      if (factor == 1) powers.push_back(tick);
    }
  if (ticks.size() > kMostLogTicks) return powers;
  if (ticks.size() >= 2) return ticks;
  ticks.clear();
  for (const Tick& t : round_ticks(std::pow(10, low), std::pow(10, high)))
    if (t.value > 0) ticks.push_back({std::log10(t.value), t.text});
  return ticks;
}

double text_width(const std::string& text) {
  double characters = 0;
  for (size_t at = 0; at < text.size(); at += std::max<size_t>(1, utf8_length(text, at)))
    ++characters;
  return kCharacter * characters;
}

std::vector<TickLabel> labels_of(const std::vector<Tick>& ticks, const SvgAxis& axis, double left,
                                 double right) {
  std::vector<TickLabel> labels;
  double end = left - kGap;  // where the label before ends
  for (const Tick& tick : ticks) {
    const double half = text_width(tick.text) / 2;
    const double x = std::max(std::min(axis.at(tick.value), right - half), left + half);
    if (x - half < end + kGap) continue;
    labels.push_back({x, tick.text});
    end = x + half;
  }
  return labels;
}

}  // namespace tessera::report
