// Verifies that the buffers and the scratch of a placed program are in its arena, which is no
// larger than they need.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/verify.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

// The bytes [begin, end) of the arena, and the end of the last buffer in them.
struct Region {
  const char* name;
  int64_t begin, end, used;
};

class ArenaVerifier {
 public:
  explicit ArenaVerifier(const Program& p)
      : p_(p),
        state_{"state", 0, p.state_bytes, 0},
        arena_{"arena", p.scratch_offset, p.bytes, p.scratch_offset},
        host_{"host's arena", p.bytes, p.bytes + p.host_bytes, p.bytes} {}

  Findings run() {
    for (const BufferId f : p_.buffers.ids()) look(f);
    for (const Queue queue : Enumerators<Queue>()) {
      if (scratch_bytes(p_, queue) > 0)
        arena_.used = std::max(arena_.used, scratch_offset(p_, queue) + scratch_bytes(p_, queue));
    }
    for (const Region& r : {state_, arena_, host_}) expect_end(r.name, r.used, r.end);
    expect_end("state before scratch", p_.state_bytes, p_.scratch_offset);
    verify_apart();
    return std::move(findings_);
  }

 private:
  Region& region_of(BufferId f) {
    if (p_.kind(p_.buffer(f).kind).host) return host_;
    return p_.buffer(f).state ? state_ : arena_;
  }

  void look(BufferId f) {
    const int64_t from = p_.buffer(f).offset, to = from + p_.bytes_of(f);
    Region& r = region_of(f);
    if (from % kByteAlignment != 0)
      findings_.push_back(fmt::format("buffer {}: begins at byte {}, expected a multiple of {}",
                                      buffer_name(p_, f), from, kByteAlignment));
    if (from < r.begin || to > r.end)
      findings_.push_back(fmt::format("buffer {}: its bytes [{}, {}) are outside the {}, [{}, {})",
                                      buffer_name(p_, f), from, to, r.name, r.begin, r.end));
    r.used = std::max(r.used, to);
  }

  // Sizes are rounded up to the alignment of the target, a divisor of kScratchAlignment.
  void expect_end(const char* what, int64_t used, int64_t end) {
    if (end < used || end - used >= kScratchAlignment || end % kByteAlignment != 0)
      findings_.push_back(
          fmt::format("the {} ends at byte {}, expected {} rounded up to a multiple of {} to {}",
                      what, end, used, kByteAlignment, kScratchAlignment));
  }

  // State exists for the whole run: no two of its buffers share bytes or are the same.
  void verify_apart() {
    std::set<std::tuple<BufferKindId, int64_t, int64_t>> seen;
    std::vector<BufferId> state;
    for (const BufferId id : p_.buffers.ids()) {
      const Buffer& f = p_.buffer(id);
      if (!f.state) continue;
      if (!seen.insert({f.kind, f.layer, f.microbatch}).second)
        findings_.push_back(fmt::format("duplicate buffer {}", buffer_name(p_, id)));
      if (p_.bytes_of(id) > 0) state.push_back(id);
    }
    std::sort(state.begin(), state.end(),
              [&](BufferId a, BufferId b) { return p_.buffer(a).offset < p_.buffer(b).offset; });
    for (size_t i = 1; i < state.size(); ++i)
      if (p_.buffer(state[i - 1]).offset + p_.bytes_of(state[i - 1]) > p_.buffer(state[i]).offset)
        findings_.push_back(fmt::format("buffers {} and {} share bytes",
                                        buffer_name(p_, state[i - 1]), buffer_name(p_, state[i])));
  }

  const Program& p_;
  Region state_, arena_, host_;
  Findings findings_;
};

}  // namespace

Findings verify_arena(const Program& p) { return ArenaVerifier(p).run(); }

}  // namespace tessera
