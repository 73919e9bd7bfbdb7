// Counts the operations of products and of attention.
#include "ir/cost.h"

#include "base/error.h"

namespace tessera {

std::string_view name_of(ProductKind kind) {
  switch (kind) {
    case ProductKind::kForward:
      return "forward";
    case ProductKind::kInputGradient:
      return "input gradient";
    case ProductKind::kWeightGradient:
      return "weight gradient";
  }
  CHECK(false, "product kind {}", static_cast<int>(kind));
}

double ProductShape::flops() const {
  return 2 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}

double AttentionPairs::flops() const {
  return 2 * static_cast<double>(products) * static_cast<double>(head_size) * pairs;
}

}  // namespace tessera
