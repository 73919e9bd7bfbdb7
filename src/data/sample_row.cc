#include "data/sample_row.h"

#include <algorithm>

namespace tessera {

void fill_row(std::span<const int32_t> ids, const SampleRow& row) {
  const size_t length = row.tokens.size(), known = std::min(ids.size(), length);
  for (size_t t = 0; t < known; ++t) {
    row.tokens[t] = ids[t];
    row.labels[t] = t + 1 < ids.size() ? ids[t + 1] : kIgnoredLabel;
    row.positions[t] = static_cast<int32_t>(t);
    row.documents[t] = 0;
  }
  clear_row(known, row);
}

void clear_row(size_t from, const SampleRow& row) {
  for (size_t t = from; t < row.tokens.size(); ++t) {
    row.tokens[t] = 0;
    row.labels[t] = kIgnoredLabel;
    row.positions[t] = static_cast<int32_t>(t);
    row.documents[t] = kNoDocument;
  }
}

}  // namespace tessera
