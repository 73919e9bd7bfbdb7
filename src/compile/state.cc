#include "compile/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tessera::compile {
namespace {

std::string print(const StageLayers& share) {
  return fmt::format("stages {} layers={} cost={}\n", share.pipeline.stages,
                     fmt::join(share.layers, ","), fmt::join(share.pipeline.cost, ","));
}

}  // namespace

// A state is a graph until the blocks are lowered, and a program from then on. Shardings are exact
// right after `shard`; once gradients exist, shared and replicated count as equal, because they
// have the same bytes. Offsets in the arena are verified once they exist.
std::vector<std::string> verify(const State& state, Invariant invariant) {
  switch (invariant) {
    case Invariant::kTypes:
      return tessera::verify(state.graph, ShardingCheck::kIgnored);
    case Invariant::kSignatures:
      return tessera::verify(state.graph, ShardingCheck::kExact);
    case Invariant::kSameBytes:
      return tessera::verify(state.graph, ShardingCheck::kSameBytes);
    case Invariant::kCalls:
      return verify_calls(state.lowered.program);
    case Invariant::kLayout:
      return tessera::verify(state.lowered.program);
    case Invariant::kPlaced:
      break;
  }
  std::vector<std::string> findings = tessera::verify(state.lowered.program);
  return findings.empty() ? verify_arena(state.lowered.program) : findings;
}

std::string print(const State& state) {
  if (state.level >= Level::kSegments) return tessera::print(state.lowered.program);
  const std::string share = state.share.layers.empty() ? "" : print(state.share);
  return share + tessera::print(state.graph);
}

}  // namespace tessera::compile
