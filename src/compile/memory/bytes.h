// Byte ranges of the arena, and a map from each byte to a property.
#pragma once

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace tessera::compile {

// The bytes [from, to) of the arena.
struct ByteRange {
  int64_t from = 0, to = 0;

  bool empty() const { return from >= to; }
  bool meets(const ByteRange& o) const {
    return from < o.to && o.from < to && !empty() && !o.empty();
  }
};

// An access of a call: to a buffer, or to the scratch of its queue, which it writes.
struct BufferAccess {
  BufferId buffer = kNone;  // kNone: scratch
  bool writes = false;
  ByteRange bytes;
};

// The byte ranges that the calls of a placed program use. Refers to the program.
class AccessMap {
 public:
  explicit AccessMap(const Program& p) : p_(p) {
    for (const Queue q : Enumerators<Queue>()) scratch_offset_[q] = scratch_offset(p, q);
  }

  ByteRange buffer(BufferId f) const {
    return {p_.buffer(f).offset, p_.buffer(f).offset + p_.bytes_of(f)};
  }
  // Returns the scratch of one segment; empty if it needs none.
  ByteRange scratch(const Segment& s) const {
    const int64_t from = scratch_offset_[s.queue];
    return {from, from + s.scratch_bytes};
  }
  std::vector<BufferAccess> of(const Call& c) const {
    const Segment& s = p_.segment(c);
    std::vector<BufferAccess> touches;
    touches.reserve(c.buffers.size() + 1);
    for (size_t i = 0; i < c.buffers.size(); ++i)
      touches.push_back({c.buffers[i], s.buffers[i].access != Access::kRead, buffer(c.buffers[i])});
    if (s.scratch_bytes > 0) touches.push_back({kNone, true, scratch(s)});
    return touches;
  }

 private:
  const Program& p_;
  EnumArray<Queue, int64_t> scratch_offset_;
};

// A T for every byte, stored as pieces of equal content, so that an access takes time logarithmic
// in the number of pieces. An assignment replaces the pieces of its range by one: a schedule that
// writes before it reads visits one or a few pieces per access, however often the bytes were used
// before.
template <class T>
class ByteMap {
 public:
  explicit ByteMap(const T& initial) {
    pieces_.emplace(std::numeric_limits<int64_t>::min(), initial);
  }

  // Calls visit(const T&) for each piece of the range, by increasing offset.
  template <class Visit>
  void read(const ByteRange& e, const Visit& visit) const {
    if (e.empty()) return;
    for (auto at = std::prev(pieces_.upper_bound(e.from)); at != pieces_.end() && at->first < e.to;
         ++at)
      visit(at->second);
  }

  // Calls change(T&) for each piece, cut at the ends of the range.
  template <class Change>
  void change(const ByteRange& e, const Change& change) {
    if (e.empty()) return;
    const auto first = cut(e.from), last = cut(e.to);
    for (auto at = first; at != last; ++at) change(at->second);
  }

  void assign(const ByteRange& e, const T& content) {
    if (e.empty()) return;
    const auto first = cut(e.from), last = cut(e.to);
    pieces_.erase(std::next(first), last);
    first->second = content;
  }

 private:
  using Pieces = std::map<int64_t, T>;  // key: where a piece begins; it ends where the next begins

  // Returns the piece that begins at `offset`.
  typename Pieces::iterator cut(int64_t offset) {
    const auto next = pieces_.upper_bound(offset);
    const auto at = std::prev(next);
    if (at->first == offset) return at;
    return pieces_.emplace_hint(next, offset, at->second);
  }

  Pieces pieces_;
};

}  // namespace tessera::compile
