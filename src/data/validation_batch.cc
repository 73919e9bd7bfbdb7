#include "data/validation_batch.h"

#include <vector>

namespace tessera {

void fill_validation_batch(const ValidationData& data, int64_t first, int64_t samples,
                           const BatchView& out) {
  const size_t rows = out.samples.size();
  const auto row = [&](std::span<int32_t> all, size_t b) {
    return all.subspan(b * (all.size() / rows), all.size() / rows);
  };
  std::vector<int32_t> unasked(out.documents.empty() ? out.tokens.size() : 0);
  const std::span<int32_t> documents = out.documents.empty() ? std::span(unasked) : out.documents;
  for (size_t b = 0; b < rows; ++b) {
    const int64_t index = first + static_cast<int64_t>(b);
    out.samples[b] = index;
    data.read_row(index < samples ? index : data.samples(),
                  {row(out.tokens, b), row(out.labels, b), row(out.positions, b), row(documents, b),
                   row(out.source, b)});
  }
}

}  // namespace tessera
