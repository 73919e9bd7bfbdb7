// The calls in issue order, and their buffers, each created at its first use.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "compile/lower/lower.h"
#include "compile/schedule/stage_layers.h"

namespace tessera::compile {

// Identifies a buffer.
struct BufferKey {
  BufferKindId kind = kNone;
  int64_t layer = kNone, microbatch = kNone, chunk = 0;
  bool operator==(const BufferKey&) const = default;
};
struct BufferKeyHash {
  size_t operator()(const BufferKey& k) const {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads bits: 2^64 divided by the golden ratio
    auto h = static_cast<uint64_t>(k.kind.number());
    for (const int64_t x : {k.layer, k.microbatch, k.chunk})
      h = (h ^ (h >> 29)) * kOdd + static_cast<uint64_t>(x);
    return h * kOdd >> 16;
  }
};

// How buffers of a kind are identified; looked up for every call.
struct BufferKindUse {
  BufferKindId kind = kNone;  // the buffer's kind; for a stream, the one that blocks read
  bool stream = false, output = false;
  bool crosses = false;  // each chunk has its own buffer
  bool per_layer = false, per_microbatch = false;
};

// Appends calls to the schedule and buffers to the program.
class CallList {
 public:
  // `crosses`: messages pass between chunks, so each chunk has its own hidden-state buffers.
  CallList(LoweredGraph& lowered, bool crosses);

  // Adds a call. Does nothing if the segment is kNone.
  void add(SegmentId segment, int64_t layer, int64_t microbatch, Positions at, int64_t chunk);
  Call& last() { return p_.schedule.back(); }
  BufferId buffer(BufferKindId kind, int64_t layer, int64_t microbatch, Positions at = {},
                  int64_t chunk = 0);

 private:
  Program& p_;
  IdVector<BufferKindId, BufferKindUse> uses_;
  std::unordered_map<BufferKey, BufferId, BufferKeyHash> buffers_;
  IdVector<SegmentId, std::optional<CommSpec>> comms_;  // per segment that was called
};

// Returns the CommSpec of a call: kind, label, bytes and group of its message or collective; empty
// if its segment communicates nothing.
CommSpec comm_of(const Program& p, const Call& c);

}  // namespace tessera::compile
