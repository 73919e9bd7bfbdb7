// A cache has its sequences in its first dimension, so the rows of some of them are a contiguous
// part of it.
#include "eval/shared_cache.h"

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "ir/value.h"

namespace tessera::eval {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

Role role_of(const Program& p, const Buffer& f) {
  const BufferKind& kind = p.kind(f.kind);
  return kind.values.empty() ? Role::kWeight : p[kind.values[0]].role;
}

// Returns whether each program has the buffer for itself: what the host writes, and what it reads.
bool is_own(Role r) {
  return is_batch(r) || r == Role::kStep || r == Role::kReport || r == Role::kLogits;
}

// Returns the bytes of one sequence in this rank's part of a cache.
int64_t row_bytes(const Program& p, const Buffer& f) {
  const Value& v = p[p.kind(f.kind).values[0]];
  return v.bytes() / v.local()[0];
}

}  // namespace

void share_state(Program& part, const Program& whole, int64_t first) {
  std::map<std::pair<std::string, int64_t>, const Buffer*> there;
  for (const Buffer& f : whole.buffers)
    if (f.state) there[{whole.kind(f.kind).name, f.layer}] = &f;
  int64_t end = whole.state_bytes;
  for (Buffer& f : part.buffers) {
    if (!f.state) continue;
    const Role role = role_of(part, f);
    if (is_own(role)) {
      f.offset = round_up(end, kScratchAlignment);
      end = f.offset + part.kind(f.kind).bytes;
      continue;
    }
    const auto same = there.find({part.kind(f.kind).name, f.layer});
    CHECK(same != there.end(), "{} has no {} of layer {}", whole.name, part.kind(f.kind).name,
          f.layer);
    f.offset = same->second->offset;
    if (role == Role::kCache) f.offset += first * row_bytes(part, f);
  }
  const int64_t moved = round_up(end, kScratchAlignment) - part.scratch_offset;
  for (Buffer& f : part.buffers)
    if (!f.state) f.offset += moved;
  part.state_bytes = end;
  part.scratch_offset += moved;
  part.bytes += moved;
}

}  // namespace tessera::eval
