#include "kernels/relative_position.h"

#include <algorithm>
#include <cmath>

namespace tessera::kernels {

int64_t relative_bucket(const RelativeBuckets& r, int64_t key_minus_query) {
  const int64_t side = r.causal ? r.buckets : r.buckets / 2, exact = side / 2;
  const int64_t first = !r.causal && key_minus_query > 0 ? side : 0;
  const int64_t n = r.causal ? std::max<int64_t>(-key_minus_query, 0) : std::abs(key_minus_query);
  if (n < exact) return first + n;
  const float ratio = static_cast<float>(n) / static_cast<float>(exact);
  const auto whole =
      static_cast<float>(std::log(static_cast<double>(r.distance) / static_cast<double>(exact)));
  const float far = std::log(ratio) / whole * static_cast<float>(side - exact);
  return first + std::min(exact + static_cast<int64_t>(far), side - 1);
}

}  // namespace tessera::kernels
