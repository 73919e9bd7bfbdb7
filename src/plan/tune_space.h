// The search space of a tuner: knobs with a few choices each, and the valid
// combinations of choices (points).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::plan {

struct Knob {
  std::string key;                   // run-file key: "batch.micro"
  std::vector<std::string> choices;  // "1", "2", "4"
  bool ordered = false;              // numbers ≥ 0, compared by their logarithms; else names
};

using Point = std::vector<int>;  // the index of the choice of each knob

struct Space {
  std::vector<Knob> knobs;
  std::vector<Point> points;

  // Returns the distance between choices a and b of a knob, in [0, 1]: 1 is its whole range. Any
  // two names have distance 1. The distance is Euclidean, so the kernels are positive definite.
  double distance(size_t knob, int a, int b) const;
  std::string text(const Point& p) const;  // "batch.micro=2 layout.zero=1"
};

// The maximum number of points: with more, a surrogate over all of them is slow.
constexpr size_t kMostPoints = 50'000;

// Returns all combinations. Throws Error for a knob without choices, for an ordered knob with a
// choice that is not a number >= 0, and for more than kMostPoints combinations.
Space product(std::vector<Knob> knobs);

}  // namespace tessera::plan
