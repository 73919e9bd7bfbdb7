// Activation offloading: a buffer that no compute call uses for a long time is copied to the host
// after its last use and fetched before the next. The rest of its uses get a new buffer, so the
// bytes in between are free for others:
//
//   uses      F ───────────── idle ───────────── B
//   device    ████ copy out                copy in ████
//   host           ██████████████████████████████
#include "compile/schedule/schedule_passes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/memory/assign_buffers.h"
#include "compile/schedule/edit_schedule.h"
#include "compile/schedule/host_copies.h"
#include "ir/program.h"

namespace tessera::compile {
namespace {

// ---- Finds for each buffer the longest interval between two uses, in compute calls, in one pass
// over the schedule.

struct IdleInterval {
  CallId last, next;      // the uses before and after it
  int64_t calls = kNone;  // compute calls between them; kNone: there is no interval
};

IdVector<BufferId, IdleInterval> longest_idle_intervals(const Program& p) {
  IdVector<BufferId, IdleInterval> longest(p.buffers.size());
  IdVector<BufferId, CallId> last(p.buffers.size());
  IdVector<CallId, int64_t> until(p.schedule.size());  // number of compute calls up to and
                                                       // including each call
  int64_t computed = 0;
  for (const CallId c : p.schedule.ids()) {
    const Call& call = p.schedule[c];
    const Segment& s = p.segment(call);
    const int64_t before = computed;
    computed += s.queue == Queue::kCompute;
    until[c] = computed;
    for (size_t i = 0; i < call.buffers.size(); ++i) {
      const BufferId f = call.buffers[i];
      if (last[f] && s.buffers[i].access == Access::kRead) {
        const int64_t calls = before - until[last[f]];
        if (calls > longest[f].calls) longest[f] = {last[f], c, calls};
      }
      last[f] = c;
    }
  }
  return longest;
}

class Offloader {
 public:
  Offloader(LoweredGraph& e, int64_t layers) : p_(e.program), layers_(layers), copies_(p_) {
    EnumArray<HiddenStream, BufferKindId> first;
    for (const BlockId b : e.blocks.ids()) {
      const BufferKindId saved = e.segments[b].saved;
      if (!saved || !e.blocks[b].is_stack()) continue;
      BufferKindId& one = first[e.blocks[b].from];
      if (!one) one = saved;
      counted_as_[saved] = one;
    }
  }

  // Offloads all buffers that no compute call uses for at least `least` calls.
  void run(int64_t least) {
    const IdVector<BufferId, IdleInterval> pauses = longest_idle_intervals(p_);
    for (const BufferId f : pauses.ids())
      if (pauses[f].calls >= least && is_kept(f)) copy(f, pauses[f]);
    added_.apply(p_);
  }

 private:
  bool is_kept(BufferId f) {
    const Buffer& buffer = p_.buffer(f);
    const BufferKind& kind = p_.kind(buffer.kind);
    if (buffer.state || kind.host || kind.values.empty() || !(kind.indexed_by & kPerMicrobatch))
      return false;
    const Role role = p_[kind.values[0]].role;
    if (role != Role::kActivation && role != Role::kHidden) return false;
    return layers_ == kAllLayers || (buffer.layer != kNone && is_of_first_layers(buffer));
  }

  bool is_of_first_layers(const Buffer& buffer) {
    const BufferKindId kind = counted_as(buffer.kind);
    std::set<int64_t>& labels = labels_[kind];
    if (labels.empty())
      for (const Buffer& f : p_.buffers)
        if (counted_as(f.kind) == kind) labels.insert(f.layer);
    return std::distance(labels.begin(), labels.find(buffer.layer)) < layers_;
  }

  BufferKindId counted_as(BufferKindId kind) const {
    const auto found = counted_as_.find(kind);
    return found == counted_as_.end() ? kind : found->second;
  }

  void copy(BufferId f, const IdleInterval& pause) {
    const Buffer buffer = p_.buffer(f);
    const HostCopy& copies = copies_.of(buffer.kind);
    const BufferId host =
        p_.buffers.push_back({copies.host, buffer.layer, buffer.microbatch, kNone, false});
    const BufferId fetched =
        p_.buffers.push_back({buffer.kind, buffer.layer, buffer.microbatch, kNone, false});
    // Later calls use the fetched buffer, which has its own lifetime.
    for (auto c = p_.schedule.begin() + pause.next.number(); c != p_.schedule.end(); ++c)
      std::replace(c->buffers.begin(), c->buffers.end(), f, fetched);
    added_.after(pause.last, copy_call(copies.out, buffer, {f, host}));
    added_.before(pause.next, copy_call(copies.in, buffer, {host, fetched}));
  }

  Program& p_;
  int64_t layers_;
  HostCopies copies_;
  // The saved values of all stacks of one stream count as one kind.
  std::map<BufferKindId, BufferKindId> counted_as_;
  std::map<BufferKindId, std::set<int64_t>> labels_;  // layers of each kind
  AddedCalls added_;
};

// Parses "activations" or "activations:N". Returns the number of layers, or nothing for other text.
std::optional<int64_t> layers_of(const std::string& part) {
  constexpr std::string_view kActivations = "activations";
  if (part == kActivations) return kAllLayers;
  if (!part.starts_with("activations:")) return std::nullopt;
  const char *begin = part.data() + kActivations.size() + 1, *end = part.data() + part.size();
  int64_t n = 0;
  const auto [stop, error] = std::from_chars(begin, end, n);
  if (error != std::errc() || stop != end || n < 0) return std::nullopt;
  return n;
}

}  // namespace

Offload parse_offload(const std::string& text) {
  Offload found;
  if (text == "none") return found;
  bool activations = false, known = true;
  for (size_t begin = 0; begin <= text.size() && known;) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::optional<int64_t> layers = layers_of(part);
    known = layers ? !std::exchange(activations, true)
                   : part == "optimizer" && !std::exchange(found.optimizer, true);
    if (layers) found.layers = *layers;
    begin = end + 1;
  }
  if (known) return found;
  throw Error("layout.offload = '{}' is unknown. Expected {}.", text, kOffloadChoices);
}

void offload(LoweredGraph& lowered, const Offload& what, int64_t overlap) {
  if (what.layers == 0) return;
  // The copy out extends the first lifetime, and the copy in the second one, by the time that
  // buffer assignment adds for transfers; the copy in also starts `overlap` calls earlier. A
  // shorter idle interval would free no bytes.
  const int64_t least = 2 * BufferAssignmentOptions().pad + overlap + 1;
  Offloader(lowered, what.layers).run(least);
}

}  // namespace tessera::compile
