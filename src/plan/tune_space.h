// What a tuner may choose: knobs with a few choices each, and the points of their product that make
// sense together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::plan {

struct Knob {
  std::string key;                   // of the run file: "batch.micro"
  std::vector<std::string> choices;  // "1", "2", "4"
  bool ordered = false;              // numbers ≥ 0, as far apart as their logarithms; else names
};

using Point = std::vector<int>;  // the choice of each knob, as index

struct Space {
  std::vector<Knob> knobs;
  std::vector<Point> points;

  // How far apart choices a and b of a knob are: 0 to 1, where 1 is its whole range; names are all
  // as far apart. The squares are those of a Euclidean distance, so kernels of them are sound.
  double distance(size_t knob, int a, int b) const;
  std::string text(const Point& p) const;  // "batch.micro=2 layout.zero=1"
};

// More than these and a surrogate over all points is slow. Throws Error beyond.
constexpr size_t kMostPoints = 50'000;

// All combinations. Throws Error for a knob without choices, or with one that is no number though
// ordered.
Space product(std::vector<Knob> knobs);

}  // namespace tessera::plan
