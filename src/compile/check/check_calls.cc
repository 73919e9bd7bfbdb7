// Checks the calls of one rank: their ids, their bytes, and that buffers of one kind are used
// equally often.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/memory/buffer_lifetimes.h"
#include "compile/memory/bytes.h"

namespace tessera::compile {
namespace {

// How often a buffer is used in one step, for comparison with others of its kind.
struct Counts {
  int reads = 0, adds = 0, updates = 0;
};

class Calls {
 public:
  Calls(const Program& p, int rank) : p_(p), rank_(rank), touches_(p), counts_(p.buffers.size()) {}

  std::vector<Finding> find() {
    for (const CallId x : p_.schedule.ids()) {
      check_labels(x);
      check_apart(x);
      count(x);
    }
    check_counts();
    check_layers();
    check_repeats();
    check_live();
    return std::move(findings_);
  }

 private:
  std::string name(CallId x) const { return "call " + call_name(p_, x); }
  std::string buffer(BufferId f) const { return buffer_name(p_, f); }
  void say(CallId x, const std::string& text) { findings_.push_back({"value", text, rank_, x}); }

  // Returns true if the buffer belongs to the call's layer and micro-batch. Hidden states belong to
  // the call's layer or to the next one: a layer reads its own input and writes the next layer's,
  // and its backward reads the gradient of its output, which is the next layer's input.
  bool is_own(const Call& c, const Buffer& f, Access access) const {
    const BufferKind& kind = p_.kind(f.kind);
    if (!f.state && kind.values.empty()) return true;
    const Role role = kind.values.empty() ? Role::kScratch : p_[kind.values[0]].role;
    const bool stream = role == Role::kHidden || role == Role::kHiddenGradient;
    const bool next = stream && !(role == Role::kHidden && access == Access::kRead);
    const Phase phase = p_.segment(c).phase;
    const bool of_output = role == Role::kHiddenGradient && access == Access::kRead &&
                           (phase == Phase::kBackward || phase == Phase::kWeightBackward);
    const bool layer = f.layer == kNone || (f.layer == c.layer && !of_output) ||
                       (stream && c.layer == kNone) || (next && f.layer == c.layer + 1);
    return layer && (f.microbatch == kNone || f.microbatch == c.microbatch);
  }

  void check_labels(CallId x) {
    const Call& c = p_.call(x);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      const Access access = p_.segment(c).buffers[i].access;
      if (c.first_write[i] && access != Access::kAdd)
        say(x, fmt::format("{} is the first write of {}, which it does not add to", name(x),
                           buffer(c.buffers[i])));
      if (!is_own(c, p_.buffer(c.buffers[i]), access))
        say(x, fmt::format("{} uses {}, which belongs to another layer or micro-batch", name(x),
                           buffer(c.buffers[i])));
    }
  }

  // Checks that the buffers and the scratch of one call do not overlap.
  void check_apart(CallId x) {
    const Call& c = p_.call(x);
    const Segment& s = p_.segment(c);
    for (const BufferId f : c.buffers) {
      const ByteRange mine = touches_.buffer(f);
      for (const BufferId o : c.buffers)
        if (o != f && mine.meets(touches_.buffer(o)))
          say(x,
              fmt::format("{} uses {} and {}, which share bytes", name(x), buffer(f), buffer(o)));
      if (mine.meets(touches_.scratch(s)))
        say(x, fmt::format("{} uses {}, which shares bytes with its scratch", name(x), buffer(f)));
    }
  }

  void count(CallId x) {
    const Call& c = p_.call(x);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      Counts& n = counts_[c.buffers[i]];
      const Access access = p_.segment(c).buffers[i].access;
      n.reads += access == Access::kRead;
      n.adds += access == Access::kAdd;
      n.updates += access == Access::kUpdate;
    }
  }

  // Returns true for the gradient of an encoder's output. It is a sum over the layers of one chunk,
  // and chunks have different numbers of layers. Gradients of weights are excluded, because they do
  // not belong to one micro-batch.
  bool is_of_chunk(BufferId f) const {
    const BufferKind& kind = p_.kind(p_.buffer(f).kind);
    return (kind.indexed_by & kPerMicrobatch) && !kind.values.empty() &&
           p_[kind.values[0]].role == Role::kGradient;
  }

  // Checks that all layers agree: their sums have equally many terms and readers, their state
  // equally many updates.
  void check_counts() {
    std::map<BufferKindId, Counts> most;
    for (const BufferId f : p_.buffers.ids()) {
      Counts& m = most[p_.buffers[f].kind];
      m.reads = std::max(m.reads, counts_[f].reads);
      m.adds = std::max(m.adds, counts_[f].adds);
      m.updates = std::max(m.updates, counts_[f].updates);
    }
    for (const BufferId f : p_.buffers.ids()) {
      const Counts &c = counts_[f], &m = most[p_.buffers[f].kind];
      if (is_of_chunk(f)) continue;
      const auto compare = [&](int mine, int others, const char* what) {
        if (mine < others)
          say(kNone, fmt::format("{} {} {} times in a step, other buffers of its kind {} times",
                                 buffer(f), what, mine, others));
      };
      compare(c.adds, m.adds, "is added to");
      if (m.adds > 0) compare(c.reads, m.reads, "is read");
      if (m.adds > 0 || p_.buffers[f].state) compare(c.updates, m.updates, "is updated");
    }
  }

  // Checks that a segment is called for layers always or never.
  void check_layers() {
    IdVector<SegmentId, CallId> first(p_.segments.size());
    for (const CallId x : p_.schedule.ids()) {
      const Call& c = p_.call(x);
      CallId& other = first[c.segment];
      if (other == kNone) other = x;
      if ((c.layer == kNone) != (p_.call(other).layer == kNone))
        say(x, fmt::format("{} and {} call the same segment, but only one has a layer", name(other),
                           name(x)));
    }
  }

  // Checks that no term or update occurs twice and that every segment is called.
  void check_repeats() {
    std::set<std::tuple<SegmentId, int64_t, int64_t, BufferId>> seen;
    IdVector<SegmentId, bool> called(p_.segments.size(), false);
    for (const CallId x : p_.schedule.ids()) {
      const Call& c = p_.call(x);
      called[c.segment] = true;
      for (size_t i = 0; i < c.buffers.size(); ++i) {
        const Access access = p_.segment(c).buffers[i].access;
        if (access != Access::kAdd && access != Access::kUpdate) continue;
        if (!seen.insert({c.segment, c.layer, c.microbatch, c.buffers[i]}).second)
          say(x, fmt::format("{} changes {} a second time", name(x), buffer(c.buffers[i])));
      }
    }
    for (const SegmentId s : called.ids())
      if (!called[s]) say(kNone, fmt::format("{} is never called", p_.segments[s].name()));
  }

  // Checks that every non-state buffer is used, and that the program states the largest
  // number of bytes alive.
  void check_live() {
    IdVector<BufferId, bool> touched(p_.buffers.size(), false);
    for (const Call& c : p_.schedule)
      for (const BufferId f : c.buffers) touched[f] = true;
    bool all = true;
    for (const BufferId f : p_.buffers.ids()) {
      if (touched[f] || p_.buffer(f).state) continue;
      say(kNone, fmt::format("no call touches {}", buffer(f)));
      all = false;
    }
    if (!all || live_bytes(p_) == p_.live_bytes) return;
    say(kNone, fmt::format("the program states at most {} bytes alive, but its calls need {}",
                           p_.live_bytes, live_bytes(p_)));
  }

  const Program& p_;
  int rank_;
  AccessMap touches_;
  IdVector<BufferId, Counts> counts_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_calls(const Program& p, int rank) { return Calls(p, rank).find(); }

}  // namespace tessera::compile
