// Compares the values of a step on the ranks of a layout with those on a single rank.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/request.h"
#include "train/value_record.h"

namespace tessera::train {

// Tolerances for the values of a correct layout, relative to the norm of each value.
struct ValueBounds {
  double computed = 0;  // values of the forward and backward pass
  double kept = 0;      // weights, gradients and optimizer state
  // An optimizer may use the sign of a value that is pure rounding noise
  // (OptimizerTraits::by_sign). Returns how much an element of this weight may differ after an
  // update with the other sign; 0 for other optimizers. If it is set, only values of the first step
  // are compared. It is null if no optimizer of the run uses signs.
  std::function<double(std::string_view weight)> signs = nullptr;
  // The share of a weight's change that its moving average follows in a step (1 - optimizer.ema).
  double average_share = 0;
  // The distance of neighboring codes of moments in 8 or 16 bits, as a share of the root mean
  // square of the moments; 0 for f32 moments. A rounding error may change a code, and then the
  // update.
  double code_distance = 0;
  // True for fp16, where a step that overflows is skipped: a value that is infinite or NaN on both
  // sides then counts as equal.
  bool overflows = false;
  // True if rounding may route a token to another expert. The biases of routers are then not
  // compared: their gradients are differences of token counts.
  bool reroutes = false;
  // The tolerance of gradients of routers, relative to that of other gradients.
  double router_scale = 1;
};

// Returns the tolerances for sums in another order: errors of one unit in the last place per layer,
// which add up like a random walk. In 16 bits, one token in 1,000 may be routed to another expert.
ValueBounds value_bounds(const compile::CompileRequest& request);
// Returns the part of the tolerance that is due to rounding accumulated or communicated gradients
// to 16 bits, relative to their norm; 0 if both are f32.
double gradient_rounding(const compile::CompileRequest& request);

struct ValueDifference {
  std::string key, told;
  double relative = 0;       // estimated from the digests; infinite: not finite, or never computed
  std::string ranks;         // "ranks with tensor=1"; empty: all
  std::string shared_over;   // for a gradient: the axes over which its weight is shared
  int64_t equal_before = 0;  // number of values before it that were compared and are equal
};

struct ValueComparison {
  int64_t compared = 0;
  // The first difference in the computation order of one rank; none if all values are equal.
  std::optional<ValueDifference> first;
  // The largest difference within the tolerances, as a fraction of its tolerance, and its value.
  double largest = 0;
  std::string largest_of;
};

// Compares the records of a run on one rank with those of the same steps on all ranks of a mesh.
ValueComparison compare_values(const RankRecords& one, std::span<const RankRecords> ranks,
                               const ValueBounds& bounds);

}  // namespace tessera::train
