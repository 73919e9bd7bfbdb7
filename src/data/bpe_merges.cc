// Applies BPE merges to one word, with two algorithms that give the same result: repeated scans for
// short words (O(n²), no allocation, fastest for usual words), and a heap of candidate pairs over a
// linked list for long ones (O(n log n), which bounds the time of hostile input such as a megabyte
// of one letter).
#include "data/bpe_merges.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace tessera::data {
namespace {

// Up to this length, moving the tail of the word costs less than maintaining a heap.
constexpr size_t kShortWord = 48;

struct Symbol {
  int32_t id, previous, next;
};

struct Candidate {
  uint32_t rank;
  int32_t position, left, right;
};

// The lowest rank first; of equal ranks, the leftmost position.
bool comes_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

MergeTable::MergeTable(size_t merges) {
  // At most half full, so that linear probing stays short. Fibonacci hashing uses the upper bits of
  // the key times 2^64 / phi.
  const size_t slots = std::bit_ceil(std::max<size_t>(merges * 2, 16));
  slots_.resize(slots);
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  CHECK(key != kEmpty, "a pair of token ids that do not exist");
  size_t i = start(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  slots_[i] = {key, merge};
}

size_t MergeTable::apply(std::span<int32_t> ids) const {
  if (ids.size() < 2) return ids.size();
  return ids.size() <= kShortWord ? apply_short(ids) : apply_long(ids);
}

size_t MergeTable::apply_short(std::span<int32_t> ids) const {
  // ranks[i] is the rank of the pair (i, i + 1). A merge changes only the ranks of its two
  // neighbors.
  size_t n = ids.size();
  std::array<uint32_t, kShortWord> ranks;
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = find(ids[i], ids[i + 1]).rank;
  while (n > 1) {
    const auto end = ranks.begin() + n - 1;
    const auto lowest = std::min_element(ranks.begin(), end);
    if (*lowest == Merge::kNone) break;
    const size_t at = lowest - ranks.begin();
    ids[at] = find(ids[at], ids[at + 1]).id;
    std::copy(ids.begin() + at + 2, ids.begin() + n, ids.begin() + at + 1);
    std::copy(lowest + 1, end, lowest);
    --n;
    if (at + 1 < n) ranks[at] = find(ids[at], ids[at + 1]).rank;
    if (at > 0) ranks[at - 1] = find(ids[at - 1], ids[at]).rank;
  }
  return n;
}

size_t MergeTable::apply_long(std::span<int32_t> ids) const {
  CHECK(ids.size() < size_t{1} << 31, "a word of {} bytes", ids.size());
  const auto n = static_cast<int32_t>(ids.size());
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  symbols.reserve(ids.size());
  // The symbols form a doubly linked list by index, so a merge needs constant time.
  for (int32_t i = 0; i < n; ++i) {
    symbols.push_back({ids[i], i - 1, i + 1 < n ? i + 1 : -1});
  }
  const auto at = [&](int32_t i) -> Symbol& { return symbols[i]; };
  const auto propose = [&](int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    const int32_t a = at(left).id, b = at(at(left).next).id;
    const Merge merge = find(a, b);
    if (merge.rank == Merge::kNone) return;
    heap.push_back({merge.rank, left, a, b});
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  for (int32_t i = 0; i + 1 < n; ++i) propose(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = at(best.position);
    // Skips stale candidates: one of the two symbols has been merged since. A symbol that was
    // merged into its left neighbor has id -1.
    if (left.id != best.left || left.next < 0 || at(left.next).id != best.right) continue;
    Symbol& right = at(left.next);
    left.id = find(best.left, best.right).id;
    left.next = right.next;
    if (right.next >= 0) at(right.next).previous = best.position;
    right.id = -1;
    propose(left.previous);
    propose(best.position);
  }
  // The first symbol is never merged away, since a merge keeps the left one.
  size_t kept = 0;
  for (int32_t i = 0; i >= 0; i = at(i).next) ids[kept++] = at(i).id;
  return kept;
}

}  // namespace tessera::data
