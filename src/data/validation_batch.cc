#include "data/validation_batch.h"

#include <algorithm>
#include <vector>

namespace tessera {

void fill_validation_batch(const ValidationData& data, int64_t first, int64_t samples,
                           const BatchView& out) {
  const size_t rows = out.samples.size(), length = out.tokens.size() / rows;
  std::vector<int32_t> sample(length + 1);
  std::fill(out.tokens.begin(), out.tokens.end(), 0);
  std::fill(out.labels.begin(), out.labels.end(), kIgnoredLabel);
  for (size_t b = 0; b < rows; ++b) {
    const int64_t index = first + static_cast<int64_t>(b);
    const int64_t n = index < samples ? data.read(index, sample) : 0;
    out.samples[b] = index;
    for (size_t t = 0; t < length; ++t) {
      const size_t at = b * length + t;
      out.positions[at] = static_cast<int32_t>(t);
      if (static_cast<int64_t>(t) + 1 >= n) continue;
      out.tokens[at] = sample[t];
      out.labels[at] = sample[t + 1];
    }
  }
}

}  // namespace tessera
