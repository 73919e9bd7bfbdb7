// Checks the calls of one rank: their ids, their bytes, and that buffers of one kind are used
// equally often.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/memory/bytes.h"
#include "compile/memory/frame_lives.h"

namespace tessera::compile {
namespace {

// How often a buffer is used in one step, for comparison with others of its kind.
struct Counts {
  int reads = 0, adds = 0, updates = 0;
};

class Calls {
 public:
  Calls(const Program& p, int rank) : p_(p), rank_(rank), touches_(p), counts_(p.frames.size()) {}

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
  std::string frame(FrameId f) const { return frame_name(p_, f); }
  void say(CallId x, const std::string& text) { findings_.push_back({"value", text, rank_, x}); }

  // Returns true if the buffer belongs to the call's layer and micro-batch. Hidden states belong to
  // the call's layer or to the next one: a layer reads its own input and writes the next layer's,
  // and its backward reads the gradient of its output, which is the next layer's input.
  bool is_own(const Call& c, const Frame& f, Access access) const {
    const FrameKind& kind = p_.kind(f.kind);
    if (!f.state && kind.values.empty()) return true;
    const Role role = kind.values.empty() ? Role::kScratch : p_[kind.values[0]].role;
    const bool stream = role == Role::kStream || role == Role::kStreamGradient;
    const bool next = stream && !(role == Role::kStream && access == Access::kRead);
    const Phase phase = p_.segment(c).phase;
    const bool of_output = role == Role::kStreamGradient && access == Access::kRead &&
                           (phase == Phase::kBackward || phase == Phase::kWeightBackward);
    const bool layer = f.layer == kNone || (f.layer == c.layer && !of_output) ||
                       (stream && c.layer == kNone) || (next && f.layer == c.layer + 1);
    return layer && (f.microbatch == kNone || f.microbatch == c.microbatch);
  }

  void check_labels(CallId x) {
    const Call& c = p_.call(x);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const Access access = p_.segment(c).frames[i].access;
      if (c.fresh[i] && access != Access::kAdd)
        say(x, fmt::format("{} is fresh in {}, which it does not add to", name(x),
                           frame(c.frames[i])));
      if (!is_own(c, p_.frame(c.frames[i]), access))
        say(x, fmt::format("{} uses {}, which belongs to another layer or micro-batch", name(x),
                           frame(c.frames[i])));
    }
  }

  // Checks that the buffers and the scratch of one call do not overlap.
  void check_apart(CallId x) {
    const Call& c = p_.call(x);
    const Segment& s = p_.segment(c);
    for (const FrameId f : c.frames) {
      const ByteRange mine = touches_.frame(f);
      for (const FrameId o : c.frames)
        if (o != f && mine.meets(touches_.frame(o)))
          say(x, fmt::format("{} uses {} and {}, which share bytes", name(x), frame(f), frame(o)));
      if (mine.meets(touches_.scratch(s)))
        say(x, fmt::format("{} uses {}, which shares bytes with its scratch", name(x), frame(f)));
    }
  }

  void count(CallId x) {
    const Call& c = p_.call(x);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      Counts& n = counts_[c.frames[i]];
      const Access access = p_.segment(c).frames[i].access;
      n.reads += access == Access::kRead;
      n.adds += access == Access::kAdd;
      n.updates += access == Access::kUpdate;
    }
  }

  // Returns true for the gradient of an encoder's output. It is a sum over the layers of one chunk,
  // and chunks have different numbers of layers. Gradients of weights are excluded, because they do
  // not belong to one micro-batch.
  bool is_of_chunk(FrameId f) const {
    const FrameKind& kind = p_.kind(p_.frame(f).kind);
    return (kind.per & kPerMicrobatch) && !kind.values.empty() &&
           p_[kind.values[0]].role == Role::kGradient;
  }

  // Checks that all layers agree: their sums have equally many terms and readers, their state
  // equally many updates.
  void check_counts() {
    std::map<FrameKindId, Counts> most;
    for (const FrameId f : p_.frames.ids()) {
      Counts& m = most[p_.frames[f].kind];
      m.reads = std::max(m.reads, counts_[f].reads);
      m.adds = std::max(m.adds, counts_[f].adds);
      m.updates = std::max(m.updates, counts_[f].updates);
    }
    for (const FrameId f : p_.frames.ids()) {
      const Counts &c = counts_[f], &m = most[p_.frames[f].kind];
      if (is_of_chunk(f)) continue;
      const auto compare = [&](int mine, int others, const char* what) {
        if (mine < others)
          say(kNone, fmt::format("{} {} {} times in a step, other frames of its kind {} times",
                                 frame(f), what, mine, others));
      };
      compare(c.adds, m.adds, "is added to");
      if (m.adds > 0) compare(c.reads, m.reads, "is read");
      if (m.adds > 0 || p_.frames[f].state) compare(c.updates, m.updates, "is updated");
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
    std::set<std::tuple<SegmentId, int64_t, int64_t, FrameId>> seen;
    IdVector<SegmentId, bool> called(p_.segments.size(), false);
    for (const CallId x : p_.schedule.ids()) {
      const Call& c = p_.call(x);
      called[c.segment] = true;
      for (size_t i = 0; i < c.frames.size(); ++i) {
        const Access access = p_.segment(c).frames[i].access;
        if (access != Access::kAdd && access != Access::kUpdate) continue;
        if (!seen.insert({c.segment, c.layer, c.microbatch, c.frames[i]}).second)
          say(x, fmt::format("{} changes {} a second time", name(x), frame(c.frames[i])));
      }
    }
    for (const SegmentId s : called.ids())
      if (!called[s]) say(kNone, fmt::format("{} is never called", p_.segments[s].name()));
  }

  // Checks that every non-state buffer is used, and that the program states the largest
  // number of bytes alive.
  void check_live() {
    IdVector<FrameId, bool> touched(p_.frames.size(), false);
    for (const Call& c : p_.schedule)
      for (const FrameId f : c.frames) touched[f] = true;
    bool all = true;
    for (const FrameId f : p_.frames.ids()) {
      if (touched[f] || p_.frame(f).state) continue;
      say(kNone, fmt::format("no call touches {}", frame(f)));
      all = false;
    }
    if (!all || live_bytes(p_) == p_.live_bytes) return;
    say(kNone, fmt::format("the program states at most {} bytes alive, but its calls need {}",
                           p_.live_bytes, live_bytes(p_)));
  }

  const Program& p_;
  int rank_;
  AccessMap touches_;
  IdVector<FrameId, Counts> counts_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_calls(const Program& p, int rank) { return Calls(p, rank).find(); }

}  // namespace tessera::compile
