// Divides the arena by role at the call with the most bytes alive. The parts are those at one call,
// so they add up to the arena; the remainder (`other`) is batches and what packing could not use.
#include "compile/memory/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ir/communicators.h"

namespace tessera::compile {
namespace {

// The calls from the first to the last use of a buffer. State, which lasts the whole run, and host
// buffers have none.
struct Span {
  int64_t first = INT64_MAX, last = -1;
};

IdVector<BufferId, Span> lives_of(const Program& p) {
  IdVector<BufferId, Span> lives(p.buffers.size());
  for (const CallId c : p.schedule.ids())
    for (const BufferId f : p.schedule[c].buffers) {
      if (p.buffer(f).state || p.kind(p.buffer(f).kind).host) continue;
      Span& life = lives[f];
      life.first = std::min(life.first, int64_t{c.number()});
      life.last = int64_t{c.number()};
    }
  return lives;
}

// Returns the call at which most bytes are alive, scratch included.
int64_t fullest_call(const Program& p, const IdVector<BufferId, Span>& lives) {
  std::vector<int64_t> bytes(p.schedule.size() + 1, 0);
  for (const BufferId f : lives.ids()) {
    if (lives[f].last < 0) continue;
    // A difference array: bytes are added at the first call and removed after the last; its prefix
    // sum is the number of bytes alive.
    bytes[lives[f].first] += p.bytes_of(f);
    bytes[lives[f].last + 1] -= p.bytes_of(f);
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  for (const CallId c : p.schedule.ids())
    bytes[c.index()] += p.segment(p.schedule[c]).scratch_bytes;
  return std::max_element(bytes.begin(), bytes.end()) - bytes.begin();
}

// Returns the most bytes of hidden states and saved values of layers that are alive at one call.
int64_t most_saved(const Program& p, const IdVector<BufferId, Span>& lives) {
  std::vector<int64_t> bytes(p.schedule.size() + 1, 0);
  for (const BufferId f : lives.ids()) {
    const BufferKind& kind = p.kind(p.buffers[f].kind);
    const Role role = p[kind.values.at(0)].role;
    const bool kept = role == Role::kHidden || role == Role::kActivation;
    if (lives[f].last < 0 || !kept || !(kind.indexed_by & kPerLayer)) continue;
    bytes[lives[f].first] += kind.bytes;
    bytes[lives[f].last + 1] -= kind.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return *std::max_element(bytes.begin(), bytes.end());
}

MemoryUse use_of(Role role) {
  switch (role) {
    case Role::kWeight:
      return MemoryUse::kWeights;
    case Role::kMaster:
    case Role::kMoment1:
    case Role::kMoment2:
    case Role::kIterate:
    case Role::kAverage:
    case Role::kMoment1Scale:
    case Role::kMoment2Scale:
    case Role::kFactoredMoment:
      return MemoryUse::kOptimizer;
    case Role::kGradient:
      return MemoryUse::kGradients;
    case Role::kHidden:
    case Role::kHiddenGradient:
    case Role::kActivation:
    case Role::kScratch:
      return MemoryUse::kActivations;
    default:
      return MemoryUse::kOther;
  }
}

std::vector<UsedRange> used_ranges(const Program& p, const IdVector<BufferId, Span>& lives) {
  const int64_t fullest = fullest_call(p, lives);
  std::vector<UsedRange> out;
  for (const BufferId f : p.buffers.ids()) {
    const BufferKind& kind = p.kind(p.buffers[f].kind);
    if (kind.host) continue;
    const bool alive = lives[f].first <= fullest && fullest <= lives[f].last;
    if (p.buffers[f].state || alive)
      out.push_back({use_of(p[kind.values.at(0)].role), p.buffers[f].offset, kind.bytes});
  }
  if (p.schedule.empty()) return out;
  const Segment& s = p.segment(p.call(CallId(fullest)));
  if (s.scratch_bytes > 0)
    out.push_back({MemoryUse::kActivations, scratch_offset(p, s.queue), s.scratch_bytes});
  return out;
}

}  // namespace

std::vector<UsedRange> used_ranges(const Program& p) { return used_ranges(p, lives_of(p)); }

MemoryPlan memory_plan(const Program& p) {
  const IdVector<BufferId, Span> lives = lives_of(p);
  EnumArray<MemoryUse, int64_t> bytes = {};
  for (const UsedRange& range : used_ranges(p, lives)) bytes[range.use] += range.bytes;
  MemoryPlan m;
  m.communicators = communicator_count(p);
  m.weights = bytes[MemoryUse::kWeights];
  m.optimizer = bytes[MemoryUse::kOptimizer];
  m.gradients = bytes[MemoryUse::kGradients];
  m.activations = bytes[MemoryUse::kActivations];
  m.arena = p.bytes;
  m.live = p.live_bytes;
  m.host = p.host_bytes;
  m.saved = most_saved(p, lives);
  m.other = p.bytes - m.weights - m.optimizer - m.gradients - m.activations;
  return m;
}

MemoryPlan larger_of(const MemoryPlan& a, const MemoryPlan& b) {
  MemoryPlan larger = b.arena > a.arena ? b : a;
  larger.host = std::max(a.host, b.host);
  return larger;
}

}  // namespace tessera::compile
