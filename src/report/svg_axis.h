// An axis of an SVG chart: its range, the pixels of its values, and its ticks.
#pragma once

#include <string>
#include <vector>

namespace tessera::report {

struct Tick {
  double value = 0;  // on the axis: of a logarithmic axis the logarithm to base 10
  std::string text;
};

// Maps values to the pixels between `from` and `to`. On a logarithmic axis, callers cover and place
// the logarithms to base 10 of the values.
class SvgAxis {
 public:
  SvgAxis(double from, double to) : from_(from), to_(to) {}

  void cover(double x);       // extends the range to x, if it is finite
  void add_margin();          // extends the range by 1/20 on each side
  double at(double x) const;  // pixels; the middle if the range is a point
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double from_, to_, low_ = 0, high_ = 1;
  bool empty_ = true;
};

// Returns two to six multiples of 1, 2 or 5 times a power of ten in [low, high], or `low` alone if
// the range is a point.
std::vector<Tick> round_ticks(double low, double high);
// Returns the ticks of a logarithmic axis from 10^low to 10^high: 1, 2 and 5 times powers of ten;
// powers of ten only, if these are many; the ticks of round_ticks() if the range has fewer than
// two.
std::vector<Tick> log_ticks(double low, double high);

// Returns the estimated width of a text of a chart's labels in pixels.
double text_width(const std::string& text);

// A label below a horizontal axis, in the middle of `x`.
struct TickLabel {
  double x = 0;
  std::string text;
};
// Returns the labels of ticks, from left to right. A label that would begin before `left` or end
// after `right` is moved inside; one that would touch the label before it is left out.
std::vector<TickLabel> labels_of(const std::vector<Tick>& ticks, const SvgAxis& axis, double left,
                                 double right);

}  // namespace tessera::report
