#include "compile/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

// Work is bounded: at most so many orders, and so many lives in all of them together.
constexpr int64_t kMostOrders = 64;
constexpr int64_t kMostPlaced = 500'000;
// One part in so many above the bound is as good as none: further orders hardly gain as much.
constexpr int64_t kCloseEnough = 1000;

int64_t round_up(int64_t n, int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Numbers, of which the largest of any range is at hand.
class MaxTree {
 public:
  MaxTree(size_t count, int64_t lowest) {
    while (leaves_ < count) leaves_ *= 2;
    most_.assign(2 * leaves_, lowest);
  }

  void set(size_t i, int64_t value) {
    most_[i += leaves_] = value;
    while (i /= 2) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
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

  // visit(i) for each i < to whose number is at least `value`.
  template <class Visit>
  void each(size_t to, int64_t value, const Visit& visit) const {
    below(1, 0, leaves_, to, value, visit);
  }

 private:
  template <class Visit>
  void below(size_t node, size_t first, size_t count, size_t to, int64_t value,
             const Visit& visit) const {
    if (first >= to || most_[node] < value) return;
    if (count == 1) return visit(first);
    below(2 * node, first, count / 2, to, value, visit);
    below(2 * node + 1, first + count / 2, count / 2, to, value, visit);
  }

  size_t leaves_ = 1;
  std::vector<int64_t> most_;
};

enum class Order { kSize, kArea, kBirth, kLength };
using Taken = std::pair<int64_t, int64_t>;  // offset, end

// Where lives were put, each place once: many lives follow each other at one place, so the places
// around a life are found in order without sorting them for each life anew.
class Places {
 public:
  // The number of a place; it may be known already.
  size_t add(const Taken& place) {
    const auto less = [](const Place& a, const Taken& b) { return a.taken < b; };
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), place, less);
    if (at != sorted_.end() && at->taken == place) return at->number;
    sorted_.insert(at, {place, marked_by_.size()});
    marked_by_.push_back(kNobody);
    return marked_by_.size() - 1;
  }

  void mark(size_t place, size_t life) { marked_by_[place] = life; }

  // What `life` marked, rising.
  void marked(size_t life, std::vector<Taken>& out) const {
    for (const Place& p : sorted_)
      if (marked_by_[p.number] == life) out.push_back(p.taken);
  }

 private:
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();
  struct Place {
    Taken taken;
    size_t number;
  };
  std::vector<Place> sorted_;
  std::vector<size_t> marked_by_;  // the life that last did
};

class Packer {
 public:
  // `lives` by rising birth.
  Packer(std::vector<Life>& lives, const std::vector<Region>& regions, int64_t alignment)
      : lives_(lives), alignment_(alignment), blocked_(lives.size()) {
    for (const Life& l : lives) births_.push_back(l.birth);
    for (const Region& r : regions) block(r);
    bound_ = std::max(bound_, most_alive(regions));
  }

  int64_t best() {
    std::vector<size_t> best_order;
    bool best_fit = true;
    for (const Order by : {Order::kSize, Order::kArea, Order::kBirth, Order::kLength})
      for (const bool fit : {true, false}) {
        if (orders_ > 0 && !may_improve()) break;
        std::vector<size_t> order = ordered(by);
        if (!attempt(order, fit)) continue;
        best_order = std::move(order);
        best_fit = fit;
      }
    take_best();
    std::vector<size_t> order = std::move(best_order);
    while (may_improve()) {
      promote_top(order);
      attempt(order, best_fit);
    }
    take_best();
    return best_bytes_;
  }

 private:
  void block(const Region& r) {
    if (r.used.empty()) return;
    MaxTree used(r.used.size(), 0);
    for (size_t c = 0; c < r.used.size(); ++c) used.set(c, r.used[c]);
    for (size_t i = 0; i < lives_.size(); ++i) {
      const int64_t most =
          used.most(static_cast<size_t>(lives_[i].birth), static_cast<size_t>(lives_[i].death) + 1);
      if (most > 0) blocked_[i].emplace_back(r.offset, r.offset + most);
    }
    bound_ = std::max(bound_, r.offset + used.most(0, r.used.size()));
  }

  int64_t most_alive(const std::vector<Region>& regions) const {
    int64_t last = -1;
    for (const Life& l : lives_) last = std::max(last, l.death);
    std::vector<int64_t> change(static_cast<size_t>(last + 2), 0);
    for (const Life& l : lives_) {
      change[static_cast<size_t>(l.birth)] += l.bytes;
      change[static_cast<size_t>(l.death) + 1] -= l.bytes;
    }
    int64_t most = 0, alive = 0;
    for (size_t c = 0; c < change.size(); ++c) {
      alive += change[c];
      int64_t used = 0;
      for (const Region& r : regions) used += c < r.used.size() ? r.used[c] : 0;
      most = std::max(most, alive + used);
    }
    return most;
  }

  std::vector<size_t> ordered(Order by) const {
    const auto key = [&](const Life& l) {
      const int64_t length = l.death - l.birth + 1;
      switch (by) {
        case Order::kSize:
          return -l.bytes;
        case Order::kArea:
          return -l.bytes * length;
        case Order::kBirth:
          return l.birth;
        case Order::kLength:
          return -length;
      }
      return int64_t{0};
    };
    std::vector<size_t> order(lives_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(key(lives_[a]), -lives_[a].bytes) <
             std::pair(key(lives_[b]), -lives_[b].bytes);
    });
    return order;
  }

  bool may_improve() const {
    const auto lives = static_cast<int64_t>(lives_.size());
    return best_bytes_ > bound_ + bound_ / kCloseEnough && orders_ < kMostOrders &&
           orders_ * lives < kMostPlaced;
  }

  // Gives every life an offset in this order. Whether none before needed as few bytes.
  bool attempt(const std::vector<size_t>& order, bool best_fit) {
    ++orders_;
    MaxTree deaths(lives_.size(), -1);  // of the lives that are placed
    Places places;
    constexpr size_t kUnplaced = std::numeric_limits<size_t>::max();
    std::vector<size_t> place_of(lives_.size(), kUnplaced);
    bytes_ = 0;
    for (const size_t i : order) {
      Life& life = lives_[i];
      const auto born = std::upper_bound(births_.begin(), births_.end(), life.death);
      const auto mark = [&](size_t o) { places.mark(place_of[o], i); };
      deaths.each(i, life.birth, mark);
      // Lives by rising birth: those from here to `born` begin within this one.
      for (size_t o = i + 1; o < static_cast<size_t>(born - births_.begin()); ++o)
        if (place_of[o] != kUnplaced) mark(o);
      taken_.clear();
      places.marked(i, taken_);
      for (const Taken& t : blocked_[i])
        taken_.insert(std::upper_bound(taken_.begin(), taken_.end(), t), t);
      life.offset = gap_for(life.bytes, best_fit);
      bytes_ = std::max(bytes_, life.offset + life.bytes);
      place_of[i] = places.add({life.offset, life.offset + life.bytes});
      deaths.set(i, life.death);
    }
    if (bytes_ >= best_bytes_) return false;
    best_bytes_ = bytes_;
    best_offsets_.clear();
    for (const Life& l : lives_) best_offsets_.push_back(l.offset);
    return true;
  }

  // The lowest (or the tightest) gap between what is taken that `bytes` fit in.
  int64_t gap_for(int64_t bytes, bool best_fit) const {
    int64_t free_from = 0, best = -1, best_slack = std::numeric_limits<int64_t>::max();
    for (const auto& [offset, end] : taken_) {
      const int64_t slack = offset - free_from - bytes;
      if (slack >= 0 && !best_fit) return free_from;
      if (slack >= 0 && slack < best_slack) {
        best_slack = slack;
        best = free_from;
      }
      free_from = std::max(free_from, round_up(end, alignment_));
    }
    return best >= 0 ? best : free_from;
  }

  void promote_top(std::vector<size_t>& order) const {
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t i) { return lives_[i].offset + lives_[i].bytes == bytes_; });
  }

  void take_best() {
    for (size_t i = 0; i < best_offsets_.size(); ++i) lives_[i].offset = best_offsets_[i];
    bytes_ = best_bytes_;
  }

  std::vector<Life>& lives_;
  int64_t alignment_;
  std::vector<int64_t> births_;
  std::vector<std::vector<Taken>> blocked_;  // by the regions, of each life
  int64_t bound_ = 0;                        // no order can do better
  int64_t orders_ = 0;                       // tried
  std::vector<Taken> taken_;                 // around the life that is being placed
  int64_t bytes_ = 0;                        // of the last order
  int64_t best_bytes_ = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> best_offsets_;
};

}  // namespace

int64_t pack(std::vector<Life>& lives, const std::vector<Region>& regions, int64_t alignment) {
  std::vector<size_t> by_birth(lives.size());
  std::iota(by_birth.begin(), by_birth.end(), size_t{0});
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](size_t a, size_t b) { return lives[a].birth < lives[b].birth; });
  std::vector<Life> sorted;
  for (const size_t i : by_birth) sorted.push_back(lives[i]);
  const int64_t bytes = Packer(sorted, regions, alignment).best();
  for (size_t i = 0; i < by_birth.size(); ++i) lives[by_birth[i]].offset = sorted[i].offset;
  return bytes;
}

}  // namespace tessera
