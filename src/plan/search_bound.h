// Lower bounds of a layout's step time and memory, without compiling its schedule.
//
// Symbols. S stages, C chunks (chunk c is on stage c mod S), m micro-batches. Durations:
//   f_c           forward of chunk c
//   b_c, b'_c     its backward; b' for the micro-batch that writes the gradient sums
//   w_c, w'_c     the weight-gradient part of a split backward
//   h_c           the part of b_c that needs no gradient: recomputation of the chunk's last layer
//   e_s, e'_s     the smallest message from stage s to the next, to the previous
//   G_s           the earliest time at which stage s has the weights of its first forward
//   X_s           all gathers and reductions of single micro-batches (ZeRO 2 and 3) on stage s
//   Y_s           its updates
//   T_s           time after its last backward: reductions, squares, updates (step 4)
// The durations include inline collectives and are those of simulate().
//
// Proposition 0 (monotonicity). With a fixed order per queue, every start in simulate() is the
// maximum of finishes before it, and every finish is its start plus a duration. Maximum and sum
// are monotone, so a system without some of the calls, without some of the waits or with shorter
// durations ends no later. Each bound below is the end of such a smaller system.
//
// Time (quick):
//   1. Stage s computes nothing before R_s, where R_0 = G_0 and
//      R_s = max(G_s, R_{s-1} + f_{s-1} + e_{s-1}): its first call is a forward of chunk s, whose
//      input has passed through chunks 0 … s-1.
//   2. All f, b and w of a stage are on one queue. So its last b ends no earlier than
//      B_s = R_s + W_s,  W_s = Σ_c on s (m f_c + b'_c + (m-1) b_c), and its last w no earlier than
//      B_s + U_s,        U_s = Σ_c on s (w'_c + (m-1) w_c).
//   3. The gradient of that micro-batch still passes at least the chunks before s. So the last
//      b of stage 0 ends no earlier than E = max_s (B_s + A_s),
//      A_s = Σ_{c<s} (min(b_c, b'_c) - h_c + e'_{c+1}), over chunks that have a backward.
//   4. Updates follow the squares and the reductions. The reduction of a stage's first layer starts
//      after its last backward; those of all n layers share a queue and start after the first of
//      these backwards, so at most n-1 backwards hide them. T_s is the larger of the two and of the
//      squares, plus Y_s. (With a split backward only the first layer's reduction is counted.)
//   5. Gathers and reductions of each micro-batch (ZeRO 2 and 3) share a queue, which needs X_s.
//   step >= max(B_s + T_s, B_s + U_s + T_s, R_s + X_s + Y_s, E + T_0) over all s.
//      (With ZeRO 3 the start of the step replaces R_s: gathers may precede the first forward.)
//
// Time (closer): the walk of all actions of all stages with their messages replaces 1 to 3
// (search_walk.cc). It omits the calls that are not on the compute queue.
//
// Layers of several stacks follow each other in the order of the model: encoder, then decoder. Of
// the bridge between them only the computation is counted, and every message is assumed to have the
// size of the smallest one.
//
// Memory. Buffers with overlapping lifetimes share no bytes, so the arena has at least the bytes
// in use at any one call. Per stage, these are counted: Z, the state that is kept across steps; F
// σ, the maximum number of forwards in flight times the smallest chunk's saved activations; Γ, the
// gradient sums.
//   bytes >= Z + F σ + Γ in the steady state of 1F1B, Z + max(F σ, Γ) in general.
// Of these, only σ depends on the micro-batch, and it does not fall as the micro-batch grows: every
// saved value has a row per token. So σ of a smaller micro-batch is a bound too, and blocks of a
// micro-batch need not be compiled if no layout with them fits by that bound.
// closer() follows the actions instead and adds the scratch of a backward while it runs. With
// layout.offload, all saved activations may be on the host, so they are not counted, nor are master
// weights and moments that are on the host.
//
// Tests (tests/plan): search_test.cc compares the bounds with full simulations of random layouts,
// SearchBounds.NoLayoutIsFasterOrSmallerThanItsBounds and
// SearchBounds.A1_HoldWithFrozenWeightsAdaptersAndEveryOptimizer; search_brute_test.cc compares
// search() with simulating every layout.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ir/target.h"
#include "plan/links.h"
#include "plan/search.h"
#include "plan/search_blocks.h"

namespace tessera::plan {

struct Bound {
  int64_t step_ns = 0;
  int64_t bytes = 0;  // the largest arena of all stages
};

// The shapes of a layout's groups. Stages whose first ranks have the same position within a node
// form one group of stages.
struct MeshPlaces {
  std::vector<size_t> group;           // by stage: its group of stages
  std::vector<Mesh> mesh;              // one entry
  std::vector<int64_t> stage;          // by group: one of its stages
  std::vector<GroupShape> shard;       // by group: the ranks that shard weights
  std::vector<GroupShape> next, back;  // by stage: messages to the next and the previous stage
  std::vector<std::map<GroupRef, GroupShape>> inner;  // by group: of collectives inside segments
};

// Durations of one call, on the ranks of a group of stages.
struct CallNs {
  using Both = std::array<int64_t, 2>;  // adds to a gradient sum, writes it
  struct OfLayer {
    int64_t layer = 0, again = 0;
    Both backward{}, weights{};
    int64_t gather = 0, reduce = 0;  // all its weights, over the data-parallel ranks
    int64_t gather_back = 0;         // the weights that its backward reads
    int64_t longest_backward() const { return again + std::max(backward[0], backward[1]); }
  };
  std::vector<OfLayer> stacks;
  int64_t embed = 0, bridge = 0;
  Both head{}, embed_backward{}, bridge_backward{};
  int64_t gather_embed = 0, reduce_embed = 0;
};

// The layers of each chunk.
struct ChunkLayers {
  struct Chunk {
    std::vector<int64_t> of;             // number of layers by stack
    size_t first = 0, last = 0;          // the stacks of its first and last layer
    std::optional<size_t> last_but_one;  // the stack of the layer whose output the last one reads
    bool bridge = false;                 // has the block between encoder and decoder
    bool begins_with_bridge = false;
    int64_t layers = 0;
  };
  std::vector<Chunk> chunks;
  std::vector<int64_t> cost;  // PipelineShape::cost
};

struct CandidateView;

class Bounds {
 public:
  Bounds(const SearchRequest& request, const Target& target, const Hardware& hardware,
         const Software& software);

  // Compiles the blocks of these candidates, on as many threads as the request has.
  void compile_blocks(const std::vector<const Candidate*>& candidates);
  // Returns a lower bound of the largest arena from blocks that are already compiled for the
  // next smaller micro-batch. Returns 0 if there are none.
  int64_t bytes_by_smaller_micro(const Candidate& candidate);
  Bound quick(const Candidate& candidate);
  Bound closer(const Candidate& candidate);

 private:
  // All that costs of blocks depend on (search_blocks.h).
  // The micro-batch is last: blocks that differ only by it are adjacent in the map.
  using BlockKey = std::tuple<int64_t, int64_t, compile::ContextMethod, bool, int64_t, std::string,
                              bool, bool, int64_t>;
  static BlockKey key_of(const Candidate& c);
  BlockCosts costs_of(const Candidate& c) const;
  const BlockCosts& blocks(const Candidate& c);
  MeshPlaces& places(const compile::Layout& layout);
  const GroupShape& shape_of(MeshPlaces& places, size_t group, const GroupRef& over) const;
  const ChunkLayers& layers(const BlockCosts& blocks, int64_t chunks);
  CallNs calls_of(const BlockCosts& b, MeshPlaces& places, size_t group, int64_t zero) const;
  int64_t message_ns(const Candidate& c, const BlockCosts& b, MeshPlaces& places,
                     const GroupShape& pair) const;
  CandidateView sizes(const Candidate& c, const BlockCosts& blocks);
  CandidateView view(const Candidate& c);

  const SearchRequest& request_;
  const Target& target_;
  const Hardware& hardware_;
  const Software& software_;
  std::map<BlockKey, BlockCosts> blocks_;
  std::map<std::array<int64_t, 5>, MeshPlaces> places_;
  std::map<std::pair<int64_t, compile::LayerCosts>, ChunkLayers> layers_;
};

}  // namespace tessera::plan
