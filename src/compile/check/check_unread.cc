// Checks that no write is useless: every written buffer is read before it is overwritten or the
// step ends.
#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/check/two_steps.h"

namespace tessera::compile {
namespace {

class Unread : private TwoStepRun {
 public:
  Unread(const Program& p, int rank)
      : TwoStepRun(p, rank), p_(p), contents_(p.buffers.size()), used_(p.kinds.size()) {}

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    for (const int64_t x : order) run(x);
    check_ends();
    return findings();
  }

 private:
  struct Content {
    int64_t writer = kNone;  // the last position that wrote it in this step
    bool read = true;        // true if it was read since then
    int64_t step = kNone;    // the step of the last access
  };

  void run(int64_t x) {
    const Call& c = call(x);
    const Segment& s = p_.segment(c);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      Content& held = contents_[c.buffers[i]];
      if (held.step != step_of(x)) held = {kNone, true, step_of(x)};
      const Access access = s.buffers[i].access;
      if (access == Access::kWrite && !held.read)
        say(x, fmt::format("{} overwrites {}, which {} wrote and no call read", name(x),
                           buffer(c.buffers[i]), name(held.writer)));
      if (access == Access::kRead || access == Access::kUpdate) held.read = true;
      if (access != Access::kWrite) used_[p_.buffer(c.buffers[i]).kind] = true;
      if (access != Access::kRead) held = {x, false, held.step};
    }
  }

  // The gradient of the first layer's input is not read if nothing before the layer is trained:
  // then it is unread in every micro-batch, and no call before the layers reads gradients of hidden
  // states.
  bool is_first_gradient(const Buffer& f) const {
    const BufferKind& kind = p_.kind(f.kind);
    return f.layer == 0 && !kind.values.empty() && p_[kind.values[0]].role == Role::kHiddenGradient;
  }
  IdVector<BufferKindId, bool> first_gradients_read() const {
    IdVector<BufferKindId, bool> read(p_.kinds.size(), false);
    for (const BufferId f : p_.buffers.ids())
      if (is_first_gradient(p_.buffers[f]) && contents_[f].read) read[p_.buffers[f].kind] = true;
    for (const Call& c : p_.schedule) {
      const Segment& s = p_.segment(c);
      if (c.layer != kNone || s.phase != Phase::kBackward) continue;
      for (size_t i = 0; i < c.buffers.size(); ++i)
        if (s.buffers[i].access == Access::kRead) read[p_.buffer(c.buffers[i]).kind] = true;
    }
    return read;
  }

  // If any call reads buffers of a kind or adds to them, none of them may end the step with unread
  // contents.
  void check_ends() {
    const IdVector<BufferKindId, bool> wanted = first_gradients_read();
    for (const BufferId f : p_.buffers.ids()) {
      const Content& c = contents_[f];
      const BufferKindId kind = p_.buffers[f].kind;
      if (p_.buffers[f].state || c.read || !used_[kind]) continue;
      if (is_first_gradient(p_.buffers[f]) && !wanted[kind]) continue;
      say(c.writer,
          fmt::format("{} writes {}, which no call after it reads", name(c.writer), buffer(f)));
    }
  }

  const Program& p_;
  IdVector<BufferId, Content> contents_;
  IdVector<BufferKindId, bool> used_;  // true if a call reads buffers of this kind or adds to them
};

}  // namespace

std::vector<Finding> check_unread(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Unread(p, rank).find(order);
}

}  // namespace tessera::compile
