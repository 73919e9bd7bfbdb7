// What a layout takes at least, without compiling its schedule. Proved, not estimated: the program
// of each stage is a subset of what is counted here of simulate()'s rules, and leaving waits and
// calls out of a system of waits never makes it end later.
//
// Time, with f, b, w the forward, backward and weights' part of a chunk (all its segments with
// their inline collectives as simulate() has them), m micro-batches and n layers:
//   a stage computes nothing before its first micro-batch has come through all stages before it;
//   then all its f and b stand in one queue; after the last b the stages before it have theirs.
//   Behind that come the reduction of the last layer, or of all n less the n − 1 backwards that
//   hide them, then squares and updates. Gathers and reductions of each micro-batch (ZeRO 2 and 3)
//   stand in one queue. closer() walks the actions of all stages with messages between them
//   instead of the formula.
// An encoder's layers stand before a decoder's; of what stands between them only its computation is
// counted, and of messages the smallest.
// Memory: what is kept from step to step, what the most forwards without a backward have saved,
// the gradients beside them, and the scratch of a backward. With layout.offload nothing of what is
// saved.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "ir/target.h"
#include "plan/links.h"
#include "plan/search.h"
#include "plan/search_blocks.h"

namespace tessera {

struct Bound {
  int64_t step_ns = 0;
  int64_t bytes = 0;  // of the arena of the fullest stage
};

// Where the ranks of a layout stand.
struct MeshPlaces {
  std::vector<size_t> group;           // of each stage: which of those below
  std::vector<Mesh> mesh;              // one entry
  std::vector<int64_t> stage;          // of each group: a stage that is like it
  std::vector<GroupShape> shard;       // of each group
  std::vector<GroupShape> next, back;  // of messages from each stage to the next and the last
};

// Of one call, on the ranks of a group of stages.
struct CallNs {
  using Both = std::array<int64_t, 2>;  // not first, first
  struct OfLayer {
    int64_t layer = 0, again = 0;
    Both backward{}, weights{};
    int64_t gather = 0, reduce = 0;  // of all its weights: what moves over the data ranks
    int64_t gather_back = 0;         // of those that its backward reads
    int64_t longest_backward() const { return again + std::max(backward[0], backward[1]); }
  };
  std::array<OfLayer, kMostStacks> stacks;
  int64_t embed = 0, bridge = 0;
  Both head{}, embed_backward{}, bridge_backward{};
  int64_t gather_embed = 0, reduce_embed = 0;
};

// How layers are spread over chunks.
struct ChunkLayers {
  std::vector<std::array<int64_t, kMostStacks>> of;  // of each chunk and stack
  std::vector<bool> bridge;                          // has what stands between the stacks
  std::vector<int64_t> cost;                         // for PipelineShape
};

struct CandidateView;

class Bounds {
 public:
  Bounds(const SearchRequest& request, const Target& target, const Hardware& hardware,
         const Software& software);

  Bound quick(const Candidate& candidate);
  Bound closer(const Candidate& candidate);

 private:
  const BlockCosts& blocks(const Candidate& c);
  const MeshPlaces& places(const Layout& layout);
  const ChunkLayers& layers(const BlockCosts& blocks, int64_t chunks);
  CallNs calls_of(const BlockCosts& b, const MeshPlaces& places, size_t group, int64_t zero) const;
  int64_t message_ns(const Candidate& c, const BlockCosts& b, const MeshPlaces& places,
                     const GroupShape& pair) const;
  CandidateView view(const Candidate& c);

  const SearchRequest& request_;
  const Target& target_;
  const Hardware& hardware_;
  const Software& software_;
  using BlockKey = std::tuple<int64_t, int64_t, std::string, bool, bool>;
  std::map<BlockKey, BlockCosts> blocks_;
  std::map<std::pair<int64_t, int64_t>, MeshPlaces> places_;
  std::map<std::pair<int64_t, BlockShares>, ChunkLayers> layers_;
};

}  // namespace tessera
