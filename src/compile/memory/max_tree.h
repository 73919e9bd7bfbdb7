// Numbers, of which the largest of any range is at hand in log n steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera {

class MaxTree {
 public:
  explicit MaxTree(const std::vector<int64_t>& numbers) {
    while (leaves_ < numbers.size()) leaves_ *= 2;
    most_.assign(2 * leaves_, std::numeric_limits<int64_t>::min());
    std::copy(numbers.begin(), numbers.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t i = leaves_; i-- > 1;) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }

  // The largest of [from, to), which is not empty.
  int64_t most(size_t from, size_t to) const {
    int64_t most = std::numeric_limits<int64_t>::min();
    for (from += leaves_, to += leaves_; from < to; from /= 2, to /= 2) {
      if (from & 1) most = std::max(most, most_[from++]);
      if (to & 1) most = std::max(most, most_[--to]);
    }
    return most;
  }

 private:
  size_t leaves_ = 1;
  std::vector<int64_t> most_;
};

}  // namespace tessera
