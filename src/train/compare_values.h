// The values of a step on the ranks of a layout beside those of one rank.
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

// How far values of a right layout may be apart, relative to the norm of the value.
struct ValueBounds {
  double computed = 0;  // in forward and backward
  double kept = 0;      // weights, gradients and what the optimizer keeps
  // An optimizer may use the sign of a value that is pure rounding noise
  // (OptimizerTraits::by_sign). Returns how far an element of this weight may differ after an
  // update with the other sign; 0 for other optimizers. Only values of the first step are compared
  // then. None: no optimizer of the run is such.
  std::function<double(std::string_view weight)> signs = nullptr;
  // fp16: a step that overflows is skipped. A value that is infinite or NaN on both sides is equal.
  bool overflows = false;
};

// Sums in another order: errors of a unit in the last place a layer add up like a random walk.
ValueBounds value_bounds(const compile::CompileRequest& request);
// Of that, what rounding sums of gradients (or what ranks send of them) to 16 bits adds, relative
// to their norm: 0 where all are f32.
double gradient_rounding(const compile::CompileRequest& request);

struct ValueDifference {
  std::string key, told;
  double relative = 0;       // estimated by the digests; infinite: no number, or never computed
  std::string ranks;         // "ranks with tensor=1"; empty: all
  std::string shared_over;   // of a gradient: axes over which its weight is used differently
  int64_t equal_before = 0;  // values that were compared before it
};

struct ValueComparison {
  int64_t compared = 0;
  std::optional<ValueDifference> first;  // in the order in which one rank computes; nothing: equal
  double largest = 0;                    // of those within the bounds, as a share of their bound
  std::string largest_of;
};

// `one` has the run on one rank, `ranks` the same steps on all ranks of a mesh.
ValueComparison compare_values(const RankRecords& one, std::span<const RankRecords> ranks,
                               const ValueBounds& bounds);

}  // namespace tessera::train
