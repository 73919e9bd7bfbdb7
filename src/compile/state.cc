#include "compile/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tessera {
namespace {

std::vector<std::string> verify_offsets(const Program& p) {
  std::vector<std::string> findings;
  for (const FrameId f : p.frames.ids()) {
    const int64_t offset = p.frame(f).offset, end = p.bytes + p.host_bytes;
    if (offset < 0 || offset + p.bytes_of(f) > end)
      findings.push_back(fmt::format("frame {} of {} bytes at {} is not within the {} bytes",
                                     frame_name(p, f), p.bytes_of(f), offset, end));
  }
  return findings;
}

std::string print(const StageShare& share) {
  return fmt::format("stages {} layers={} cost={}\n", share.pipeline.stages,
                     fmt::join(share.layers, ","), fmt::join(share.pipeline.cost, ","));
}

}  // namespace

std::vector<std::string> verify(const State& state, Invariant invariant) {
  switch (invariant) {
    case Invariant::kTypes:
      return verify(state.graph, ShardingCheck::kIgnored);
    case Invariant::kSignatures:
      return verify(state.graph, ShardingCheck::kExact);
    case Invariant::kSameBytes:
      return verify(state.graph, ShardingCheck::kSameBytes);
    case Invariant::kCalls:
      return verify_calls(state.expanded.program);
    case Invariant::kPlaced:
      if (std::vector<std::string> found = verify_offsets(state.expanded.program); !found.empty())
        return found;
      break;
    case Invariant::kLayout:
      break;
  }
  return verify(state.expanded.program);
}

std::string print(const State& state) {
  if (state.level >= Level::kSegments) return print(state.expanded.program);
  const std::string share = state.share.layers.empty() ? "" : print(state.share);
  return share + print(state.graph);
}

}  // namespace tessera
