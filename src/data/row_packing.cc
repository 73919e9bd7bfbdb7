// Best-fit bin packing (Johnson 1974) of things into rows, in a random order. Open rows are kept
// sorted by the room that is left, so each thing finds its row in O(log rows). A counting sort then
// lists the things by row.
#include "data/row_packing.h"

#include <map>

#include "base/error.h"
#include "data/permutation.h"

namespace tessera {

RowPacking::RowPacking(std::span<const int32_t> lengths, int64_t row, uint64_t key) {
  const Permutation order(key, std::ssize(lengths));
  std::vector<int32_t> row_of(lengths.size());
  std::multimap<int64_t, int32_t> open;  // room left, row
  int32_t rows = 0;
  for (int64_t i = 0; i < std::ssize(lengths); ++i) {
    const auto thing = static_cast<size_t>(order(i));
    const int64_t length = lengths[thing];
    CHECK(length > 0 && length <= row, "a thing of {} in a row of {}", length, row);
    // The open row with the least room that still fits.
    const auto best = open.lower_bound(length);
    const int64_t room = (best == open.end() ? row : best->first) - length;
    row_of[thing] = best == open.end() ? rows++ : best->second;
    if (best != open.end()) open.erase(best);
    if (room > 0) open.emplace(room, row_of[thing]);
  }
  starts_.assign(static_cast<size_t>(rows) + 1, 0);
  // starts_ holds the number of things per row, then their prefix sums, as in a counting sort.
  for (const int32_t r : row_of) ++starts_[static_cast<size_t>(r) + 1];
  for (size_t r = 1; r < starts_.size(); ++r) starts_[r] += starts_[r - 1];
  things_.resize(lengths.size());
  std::vector<int64_t> next = starts_;
  for (int64_t i = 0; i < std::ssize(lengths); ++i) {
    // The order of packing within a row, too.
    const int64_t thing = order(i);
    const auto r = static_cast<size_t>(row_of[thing]);
    things_[next[r]++] = static_cast<int32_t>(thing);
  }
}

std::span<const int32_t> RowPacking::row(int64_t i) const {
  CHECK(i >= 0 && i < rows(), "row {} of {}", i, rows());
  const auto begin = static_cast<size_t>(starts_[i]);
  const auto end = static_cast<size_t>(starts_[static_cast<size_t>(i) + 1]);
  return std::span(things_).subspan(begin, end - begin);
}

}  // namespace tessera
