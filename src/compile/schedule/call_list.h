// Calls in issue order and the frames that they name, made when one is first asked for.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "compile/lower/expand.h"
#include "compile/schedule/stage_share.h"

namespace tessera::compile {

// What tells frames apart.
struct FrameKey {
  FrameKindId kind = kNone;
  int64_t layer = kNone, microbatch = kNone, chunk = 0;
  bool operator==(const FrameKey&) const = default;
};
struct FrameKeyHash {
  size_t operator()(const FrameKey& k) const {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads bits: 2^64 over the golden ratio
    auto h = static_cast<uint64_t>(k.kind.number());
    for (const int64_t x : {k.layer, k.microbatch, k.chunk})
      h = (h ^ (h >> 29)) * kOdd + static_cast<uint64_t>(x);
    return h * kOdd >> 16;
  }
};

// How the frames of a kind are told apart, looked up for every call.
struct KindUse {
  FrameKindId kind = kNone;  // of the frame: of a stream the kind that blocks read
  bool stream = false, output = false;
  bool crosses = false;  // each chunk has its own
  bool per_layer = false, per_microbatch = false;
};

// Appends to the schedule and the frames of `p`.
class CallList {
 public:
  // `crosses`: messages pass between chunks, so each has streams of its own.
  CallList(Expanded& expanded, bool crosses);

  // Nothing for the segment kNone.
  void add(SegmentId segment, int64_t layer, int64_t microbatch, Positions at, int64_t chunk);
  Call& last() { return p_.schedule.back(); }
  FrameId frame(FrameKindId kind, int64_t layer, int64_t microbatch, Positions at = {},
                int64_t chunk = 0);

 private:
  Program& p_;
  IdVector<FrameKindId, KindUse> uses_;
  std::unordered_map<FrameKey, FrameId, FrameKeyHash> frames_;
  IdVector<SegmentId, std::optional<Wire>> wires_;  // of each segment that was called
};

// What a call's frames say of its message or collective; empty for a segment without any.
Wire wire_of(const Program& p, const Call& c);

}  // namespace tessera::compile
