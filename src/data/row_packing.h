// Whole things of different lengths, in rows of one length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// Takes the things in a random order that `key` determines, and puts each into the fullest row that
// still has room for it, else into a new one (best fit: Johnson 1974; at most 1.7 times as many
// rows as needed, few per cent more for lengths that are small beside a row). Nothing is cut, left
// out or put in twice.
class RowPacking {
 public:
  // 0 < lengths ≤ row: CHECKed.
  RowPacking(std::span<const int32_t> lengths, int64_t row, uint64_t key);

  int64_t rows() const { return std::ssize(starts_) - 1; }
  // The things of a row, in the order they are put there.
  std::span<const int32_t> row(int64_t i) const;

 private:
  std::vector<int32_t> things_;  // row by row
  std::vector<int64_t> starts_;  // of each row in things_, and the end
};

}  // namespace tessera
