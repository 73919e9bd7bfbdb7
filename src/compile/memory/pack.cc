// Offset assignment for buffers with known lifetimes (dynamic storage allocation, NP-hard). Greedy
// placement in several orders, each with best fit and first fit, then local search.
//
//   offset
//     ^   ┌────┐  ┌───────┐        a lifetime is a rectangle: its calls by its bytes;
//     │   │ B  │  │   C   │        rectangles must not overlap, and the height should
//     │   └────┘  └───────┘        be small
//     │ ┌───────────┐ ┌────┐
//     │ │     A     │ │ D  │       lower bound: the most bytes alive at one call
//     └─┴───────────┴─┴────┴──> calls
//
// The search stops as soon as the result is within 0.2 % of the lower bound. Otherwise the buffers
// that end at the top are moved to the front of the order, and packing is repeated: what is placed
// first gets the lowest gaps.
#include "compile/memory/pack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "compile/memory/gap_finder.h"

namespace tessera::compile {
namespace {

// An array of numbers whose maximum over any range is found in O(log n) steps (a segment tree).
class RangeMaxTree {
 public:
  explicit RangeMaxTree(const std::vector<int64_t>& numbers) {
    while (leaves_ < numbers.size()) leaves_ *= 2;
    most_.assign(2 * leaves_, std::numeric_limits<int64_t>::min());
    std::copy(numbers.begin(), numbers.end(), most_.begin() + leaves_);
    for (size_t i = leaves_; i-- > 1;) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }

  // Returns the largest number in [from, to), which must not be empty.
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

// ---- Orders in which lifetimes are packed: by size, by size times length, by first call, by
// length. Ties are broken by size, then by first call (the sort is stable).

// The most bytes first, the most bytes × positions first, the earliest first, the longest first.
enum class PackOrder { kSize, kArea, kBirth, kLength };
inline constexpr std::array kPackOrders = {PackOrder::kSize, PackOrder::kArea, PackOrder::kBirth,
                                           PackOrder::kLength};

int64_t key_of(const Lifetime& l, PackOrder by) {
  const int64_t length = l.death - l.birth + 1;
  switch (by) {
    case PackOrder::kSize:
      return -l.bytes;
    case PackOrder::kArea:
      return -l.bytes * length;
    case PackOrder::kBirth:
      return l.birth;
    case PackOrder::kLength:
      return -length;
  }
  return 0;
}

std::vector<size_t> ordered(const std::vector<Lifetime>& lives, PackOrder by) {
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(key_of(lives[a], by), -lives[a].bytes) <
           std::pair(key_of(lives[b], by), -lives[b].bytes);
  });
  return order;
}

// Limits of the work: the number of orders tried, and the number of lifetimes placed in all of
// them.
constexpr int64_t kMostOrders = 64;
constexpr int64_t kMostPlaced = 500'000;
// A result within 1/500 of the bound is good enough: further orders rarely gain that much.
constexpr int64_t kCloseEnough = 500;
// Stop after this many orders without a gain. Measured on pipelines of 24 to 96 stages, where four
// more orders gained 0.002 % on average.
constexpr int64_t kMostFruitless = 4;

int64_t round_up(int64_t n, int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

class Packer {
 public:
  // `lives` is sorted by first call.
  Packer(std::vector<Lifetime>& lives, const std::vector<Region>& regions, int64_t alignment)
      : lives_(lives), alignment_(alignment), blocked_(lives.size()) {
    for (const Region& r : regions) block(r);
    bound_ = std::max(bound_, most_alive(regions));
  }

  int64_t best() {
    std::vector<size_t> best_order;
    bool best_fit = true;
    for (const PackOrder by : kPackOrders)
      for (const bool fit : {true, false}) {
        if (orders_ > 0 && !may_improve()) break;
        std::vector<size_t> order = ordered(lives_, by);
        if (!attempt(order, fit)) continue;
        best_order = std::move(order);
        best_fit = fit;
      }
    take_best();
    std::vector<size_t> order = std::move(best_order);
    for (int64_t fruitless = 0; may_improve() && fruitless < kMostFruitless;) {
      promote_top(order);
      fruitless = attempt(order, best_fit) ? 0 : fruitless + 1;
    }
    take_best();
    return best_bytes_;
  }

 private:
  // A lifetime that overlaps a region's use is blocked from as many of its bytes as the region
  // needs at that time; the rest of the region is free for buffers.
  void block(const Region& r) {
    if (r.used.empty()) return;
    const RangeMaxTree used(r.used);
    for (size_t i = 0; i < lives_.size(); ++i) {
      const int64_t most = used.most(lives_[i].birth, lives_[i].death + 1);
      if (most > 0) blocked_[i].emplace_back(r.offset, round_up(r.offset + most, alignment_));
    }
    bound_ = std::max(bound_, r.offset + used.most(0, r.used.size()));
  }

  int64_t most_alive(const std::vector<Region>& regions) const {
    int64_t end = 1;
    for (const Lifetime& l : lives_) end = std::max(end, l.death + 1);
    std::vector<int64_t> taken = bytes_alive(lives_, end);
    for (const Region& r : regions)
      for (size_t c = 0; c < std::min(taken.size(), r.used.size()); ++c) taken[c] += r.used[c];
    return *std::max_element(taken.begin(), taken.end());
  }

  bool may_improve() const {
    const auto lives = std::ssize(lives_);
    return best_bytes_ > bound_ + bound_ / kCloseEnough && orders_ < kMostOrders &&
           orders_ * lives < kMostPlaced;
  }

  // Assigns an offset to every lifetime in this order. Returns true if fewer bytes are needed than
  // in every order before.
  bool attempt(const std::vector<size_t>& order, bool best_fit) {
    ++orders_;
    places_.clear();
    bytes_ = 0;
    for (const size_t i : order) {
      Lifetime& life = lives_[i];
      life.offset = places_.gap_for(life, blocked_[i], best_fit);
      const int64_t end = life.offset + life.bytes;
      bytes_ = std::max(bytes_, end);
      if (life.bytes > 0) places_.add(life, round_up(end, alignment_));
    }
    if (bytes_ >= best_bytes_) return false;
    best_bytes_ = bytes_;
    best_offsets_.clear();
    for (const Lifetime& l : lives_) best_offsets_.push_back(l.offset);
    return true;
  }

  // Moves the lifetimes that determine the height to the front, keeping the order otherwise.
  void promote_top(std::vector<size_t>& order) const {
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t i) { return lives_[i].offset + lives_[i].bytes == bytes_; });
  }

  void take_best() {
    for (size_t i = 0; i < best_offsets_.size(); ++i) lives_[i].offset = best_offsets_[i];
    bytes_ = best_bytes_;
  }

  std::vector<Lifetime>& lives_;
  int64_t alignment_;
  std::vector<std::vector<OccupiedRange>> blocked_;  // per lifetime, by the regions
  int64_t bound_ = 0;                                // lower bound of the bytes of every order
  int64_t orders_ = 0;                               // number of orders tried
  GapFinder places_;                                 // lifetimes placed in the current order
  int64_t bytes_ = 0;                                // bytes that the last order needs
  int64_t best_bytes_ = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> best_offsets_;
};

}  // namespace

std::vector<int64_t> bytes_alive(const std::vector<Lifetime>& lives, size_t positions) {
  std::vector<int64_t> alive(positions + 1, 0);
  for (const Lifetime& l : lives) {
    alive[l.birth] += l.bytes;
    alive[l.death + 1] -= l.bytes;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  alive.pop_back();
  return alive;
}

int64_t pack(std::vector<Lifetime>& lives, const std::vector<Region>& regions, int64_t alignment) {
  std::vector<size_t> by_birth(lives.size());
  std::iota(by_birth.begin(), by_birth.end(), size_t{0});
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](size_t a, size_t b) { return lives[a].birth < lives[b].birth; });
  std::vector<Lifetime> sorted;
  for (const size_t i : by_birth) sorted.push_back(lives[i]);
  const int64_t bytes = Packer(sorted, regions, alignment).best();
  for (size_t i = 0; i < by_birth.size(); ++i) lives[by_birth[i]].offset = sorted[i].offset;
  return bytes;
}

}  // namespace tessera::compile
