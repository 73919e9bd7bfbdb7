// Orders in which lifetimes are packed: by size, by size times length, by first call, by length.
// Ties are broken by size, then by first call (the sort is stable).
#include "compile/memory/pack_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

int64_t key_of(const Life& l, PackOrder by) {
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

}  // namespace

std::vector<size_t> ordered(const std::vector<Life>& lives, PackOrder by) {
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(key_of(lives[a], by), -lives[a].bytes) <
           std::pair(key_of(lives[b], by), -lives[b].bytes);
  });
  return order;
}

}  // namespace tessera
