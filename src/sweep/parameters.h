// The keys that a sweep varies, as they are given on the command line, and the points that are
// tried.
//
//   KEY=LOW..HIGH   integers if both ends are and the key is not a real number, else real
//                   numbers; evenly spaced, or by the logarithm if both are positive and HIGH is
//                   at least ten times LOW
//   KEY=A,B,C       these values, in this order
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::sweep {

enum class Scale : uint8_t { kList, kLinear, kLogarithmic };

struct Parameter {
  std::string key;
  Scale scale = Scale::kList;
  bool integers = false;
  double low = 0, high = 0;         // the ends, if it is a range
  std::vector<std::string> values;  // the values, if it is a list

  // Returns the number of its values; nothing for a range of real numbers.
  std::optional<int64_t> count() const;
};

// The values of one trial, in the order of the parameters, as they are written in a run file.
using Point = std::vector<std::string>;

// Returns the parameter that the argument KEY=VALUES describes, or nothing if it is an override
// with one value: values in brackets or quotes, and texts without a comma that are not two numbers
// around "..". Throws UsageError for a range that is empty or not finite, a list with an empty
// value, and one value twice.
std::optional<Parameter> parse_parameter(const std::string& argument);

// Returns `points` values of each range (all of its integers if it has no more), with both ends,
// combined with each value of the lists. The last parameter varies fastest. Throws Error if there
// are more than `most` combinations.
std::vector<Point> grid(const std::vector<Parameter>& parameters, int64_t points, int64_t most);

// Returns `trials` different points, uniform on the scale of each parameter: fewer if there are not
// enough. They depend on the seed and the parameters only, and the first n are those of a sample
// of n.
std::vector<Point> sample(const std::vector<Parameter>& parameters, int64_t trials, uint64_t seed);

// Returns the value as a run file has it: integers exactly, others with four significant digits.
std::string text_of(const Parameter& parameter, double value);

// Returns "optimizer.learning_rate=0.001 batch.global=8".
std::string text_of(const std::vector<Parameter>& parameters, const Point& point);
std::vector<std::string> keys_of(const std::vector<Parameter>& parameters, const Point& point);

}  // namespace tessera::sweep
