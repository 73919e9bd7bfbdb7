#include "compile/offload.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "compile/place.h"

namespace tessera {
namespace {

// Calls between which a frame is not touched.
struct Pause {
  size_t last = 0, next = 0;  // positions in the schedule
  int64_t calls = 0;          // of computation between them
};

class Offloader {
 public:
  Offloader(Program& p, int64_t layers, int64_t least) : p_(p), layers_(layers), least_(least) {}

  void run() {
    find_pauses();
    const auto frames = static_cast<FrameId>(p_.frames.size());
    for (FrameId f = 0; f < frames; ++f) {
      const std::optional<Pause>& pause = pauses_[static_cast<size_t>(f)];
      if (pause && pause->calls >= least_ && is_kept(f)) copy(f, *pause);
    }
    write_schedule();
  }

 private:
  // Its two segments, and the kind of its copies.
  struct Copies {
    FrameKindId host = kNone;
    SegmentId out = kNone, in = kNone;
  };

  // Of each frame the longest time between two touches, of which the second reads.
  void find_pauses() {
    pauses_.resize(p_.frames.size());
    std::vector<std::optional<size_t>> last(p_.frames.size());
    std::vector<int64_t> computed(p_.schedule.size() + 1, 0);  // before each position
    for (size_t c = 0; c < p_.schedule.size(); ++c) {
      const Call& call = p_.schedule[c];
      const Segment& s = p_.segment(call);
      computed[c + 1] = computed[c] + (s.queue == Queue::kCompute);
      for (size_t i = 0; i < call.frames.size(); ++i) {
        const auto f = static_cast<size_t>(call.frames[i]);
        std::optional<Pause>& longest = pauses_[f];
        if (last[f] && s.frames[i].access == Access::kRead) {
          const int64_t calls = computed[c] - computed[*last[f] + 1];
          if (!longest || calls > longest->calls) longest = Pause{*last[f], c, calls};
        }
        last[f] = c;
      }
    }
  }

  bool is_kept(FrameId f) {
    const Frame& frame = p_.frame(f);
    const FrameKind& kind = p_.kind(frame.kind);
    if (frame.state || kind.host || kind.values.empty() || !(kind.per & kPerMicrobatch))
      return false;
    const Role role = p_[kind.values[0]].role;
    if (role != Role::kActivation && role != Role::kStream) return false;
    return layers_ == kAllLayers || (frame.layer != kNone && is_of_first_layers(frame));
  }

  bool is_of_first_layers(const Frame& frame) {
    std::set<int64_t>& labels = labels_[frame.kind];
    if (labels.empty())
      for (const Frame& f : p_.frames)
        if (f.kind == frame.kind) labels.insert(f.layer);
    return std::distance(labels.begin(), labels.find(frame.layer)) < layers_;
  }

  // A twin of each value, in the same places of a frame of the host.
  FrameKindId host_kind(FrameKindId kind, std::vector<Op>& out, std::vector<Op>& in) {
    const auto host = static_cast<FrameKindId>(p_.kinds.size());
    FrameKind k = p_.kind(kind);
    k.name += ".host";
    k.host = true;
    k.values.clear();
    std::set<int64_t> places;  // the stream is one value in each block, all in one place
    for (const ValueId v : p_.kind(kind).values) {
      if (!places.insert(p_[v].offset).second) continue;
      Value twin = p_[v];
      twin.name += ".host";
      twin.frame = host;
      k.values.push_back(static_cast<ValueId>(p_.values.size()));
      Op op;
      op.kind = OpKind::kCopy;
      op.inputs = {v};
      op.outputs = {k.values.back()};
      op.origin = "offload";
      out.push_back(op);
      std::swap(op.inputs, op.outputs);
      op.origin = "fetch";
      in.push_back(op);
      p_.values.push_back(std::move(twin));
    }
    p_.kinds.push_back(std::move(k));
    return host;
  }

  SegmentId segment(const std::string& name, std::vector<Op> ops, Queue queue, FrameKindId from,
                    FrameKindId to) {
    Segment s;
    s.name = name;
    s.ops = std::move(ops);
    for (Op& op : s.ops) op.queue = queue;
    s.queue = queue;
    s.frames = {{from, Access::kRead}, {to, Access::kWrite}};
    p_.segments.push_back(std::move(s));
    return static_cast<SegmentId>(p_.segments.size() - 1);
  }

  const Copies& copies_of(FrameKindId kind) {
    const auto [known, made] = copies_.try_emplace(kind);
    if (!made) return known->second;
    std::vector<Op> out, in;
    const std::string name = p_.kind(kind).name;
    const FrameKindId host = host_kind(kind, out, in);
    known->second = {host, segment("offload." + name, out, Queue::kCopyOut, kind, host),
                     segment("fetch." + name, in, Queue::kCopyIn, host, kind)};
    return known->second;
  }

  void copy(FrameId f, const Pause& pause) {
    const Frame frame = p_.frame(f);
    const Copies& copies = copies_of(frame.kind);
    const auto host = static_cast<FrameId>(p_.frames.size());
    p_.frames.push_back({copies.host, frame.layer, frame.microbatch, kNone, false});
    p_.frames.push_back({frame.kind, frame.layer, frame.microbatch, kNone, false});
    const FrameId again = host + 1;
    for (size_t c = pause.next; c < p_.schedule.size(); ++c)
      std::replace(p_.schedule[c].frames.begin(), p_.schedule[c].frames.end(), f, again);
    behind_[pause.last].push_back(call(copies.out, frame, {f, host}));
    ahead_[pause.next].push_back(call(copies.in, frame, {host, again}));
  }

  static Call call(SegmentId segment, const Frame& of, std::vector<FrameId> frames) {
    Call c;
    c.segment = segment;
    c.layer = of.layer;
    c.microbatch = of.microbatch;
    c.frames = std::move(frames);
    return c;
  }

  void write_schedule() {
    std::vector<Call> calls;
    calls.swap(p_.schedule);
    const auto add = [&](std::map<size_t, std::vector<Call>>& more, size_t at) {
      const auto found = more.find(at);
      if (found == more.end()) return;
      for (Call& c : found->second) p_.schedule.push_back(std::move(c));
    };
    for (size_t c = 0; c < calls.size(); ++c) {
      add(ahead_, c);
      p_.schedule.push_back(std::move(calls[c]));
      add(behind_, c);
    }
  }

  Program& p_;
  int64_t layers_, least_;
  std::vector<std::optional<Pause>> pauses_;  // of each frame
  std::map<FrameKindId, std::set<int64_t>> labels_;
  std::map<FrameKindId, Copies> copies_;
  std::map<size_t, std::vector<Call>> behind_, ahead_;  // of calls at these positions
};

}  // namespace

Offload parse_offload(const std::string& text) {
  constexpr std::string_view kActivations = "activations";
  if (text == "none") return {};
  if (text == kActivations) return {kAllLayers};
  if (text.starts_with("activations:")) {
    const char *begin = text.data() + kActivations.size() + 1, *end = text.data() + text.size();
    int64_t n = 0;
    const auto [stop, error] = std::from_chars(begin, end, n);
    if (error == std::errc() && stop == end && n >= 0) return {n};
  }
  throw Error(
      "layout.offload = '{}' is not known. Possible: none, activations, activations:N (of the "
      "first N layers of each stage).",
      text);
}

void offload(Program& program, const Offload& what, int64_t overlap) {
  if (what.layers == 0) return;
  // At each end the copy holds the bytes as long as place() gives other queues, and at the second
  // so much longer as it begins earlier: in a shorter pause nothing is won.
  const int64_t least = 2 * PlaceOptions().pad + overlap + 1;
  Offloader(program, what.layers, least).run();
}

}  // namespace tessera
