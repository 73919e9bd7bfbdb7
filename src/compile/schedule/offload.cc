#include "compile/schedule/offload.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "compile/memory/place.h"
#include "compile/schedule/host_copies.h"
#include "compile/schedule/pauses.h"

namespace tessera {
namespace {

class Offloader {
 public:
  Offloader(Program& p, int64_t layers) : p_(p), layers_(layers), copies_(p) {}

  // Of all frames that no call of computation touches for `least` others or more.
  void run(int64_t least) {
    const IdVector<FrameId, Pause> pauses = longest_pauses(p_);
    for (const FrameId f : pauses.ids())
      if (pauses[f].calls >= least && is_kept(f)) copy(f, pauses[f]);
    write_schedule();
  }

 private:
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

  void copy(FrameId f, const Pause& pause) {
    const Frame frame = p_.frame(f);
    const HostCopy& copies = copies_.of(frame.kind);
    const FrameId host =
        p_.frames.push_back({copies.host, frame.layer, frame.microbatch, kNone, false});
    const FrameId fetched =
        p_.frames.push_back({frame.kind, frame.layer, frame.microbatch, kNone, false});
    for (auto c = p_.schedule.begin() + pause.next.number(); c != p_.schedule.end(); ++c)
      std::replace(c->frames.begin(), c->frames.end(), f, fetched);
    behind_[pause.last].push_back(call(copies.out, frame, {f, host}));
    ahead_[pause.next].push_back(call(copies.in, frame, {host, fetched}));
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
    IdVector<CallId, Call> calls;
    calls.swap(p_.schedule);
    const auto add = [&](std::map<CallId, std::vector<Call>>& more, CallId at) {
      const auto found = more.find(at);
      if (found == more.end()) return;
      for (Call& c : found->second) p_.schedule.push_back(std::move(c));
    };
    for (const CallId c : calls.ids()) {
      add(ahead_, c);
      p_.schedule.push_back(std::move(calls[c]));
      add(behind_, c);
    }
  }

  Program& p_;
  int64_t layers_;
  HostCopies copies_;
  std::map<FrameKindId, std::set<int64_t>> labels_;     // layers of each kind
  std::map<CallId, std::vector<Call>> behind_, ahead_;  // of these calls
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
  Offloader(program, what.layers).run(least);
}

}  // namespace tessera
