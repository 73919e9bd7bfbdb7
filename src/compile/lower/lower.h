// The last block pass: Graph → segments and buffer kinds.
//   before  values have roles and shardings; blocks have lists of ops
//   after   every value that outlives its segment has a buffer kind and an offset in it; every
//   other
//           one an offset in its segment's scratch; GEMMs have workspaces and packed weights
#pragma once

#include <string>
#include <vector>

#include "compile/context.h"
#include "compile/schedule/stage_layers.h"
#include "ir/program.h"

namespace tessera::compile {

// ---- The result of the pass lower(): segments, buffer kinds and groups of weights.

using GroupId = Id<struct GroupTag>;  // names a WeightGroup

// The segments of a block by phase, and the buffer kinds between them; kNone where there is none.
struct BlockSegments {
  SegmentId forward = kNone;
  SegmentId forward_no_save = kNone;
  SegmentId recompute = kNone;  // gives no output
  SegmentId backward = kNone;   // in a loss block: the joint segment
  SegmentId weight_backward = kNone;
  SegmentId pack = kNone;
  SegmentId max_scores = kNone;  // reduces the largest attention scores
  BufferKindId saved = kNone;    // values saved for the backward
  BufferKindId pending = kNone;  // values that weight_backward reads
  BufferKindId scores = kNone;   // the largest attention scores of a step
};

// Weights of one dtype that share a buffer and a reduction: those of a block (or those several
// blocks share) whose gradients are partial over the same axes and that one optimizer updates.
// Matrices of Muon are also divided along the same axes.
struct WeightGroup {
  std::string name;             // "layer", "layer.tensor", "shared", "layer.group1"
  std::vector<BlockId> blocks;  // the blocks that use them
  bool per_layer = false;
  bool frozen = false;  // not trained: no gradients, no optimizer state
  DType dtype = DType::kF32;
  bool common = false;  // shared by the layers of a stack, so on all stages that have some of them
  int64_t policy = 0;   // Value::policy of its weights; 0 where they are frozen
  GroupRef partial;     // along the axes, except data axes, over which the gradient is partial
  GroupRef dividing;    // Muon: along the tensor axes, all of which divide each of its matrices

  BufferKindId weights = kNone, gradients = kNone;
  BufferKindId weights_shard = kNone, gradients_shard = kNone;  // kNone if not sharded
  std::vector<BufferKindId> state;                              // optimizer state
  // gather, reduce: over `shard`; finish: over replicas and `partial`; join: over stages.
  SegmentId gather = kNone, reduce = kNone, finish = kNone, join = kNone;
  SegmentId squares = kNone, update = kNone;

  // Adafactor's means over rows and columns, their sums of a step, and the squares of its changes.
  BufferKindId factors = kNone, factor_sums = kNone, update_squares = kNone;
  SegmentId measure = kNone, sum_measure = kNone, factor = kNone, sum_factor = kNone;

  BufferKindId directions = kNone;  // Muon's
  SegmentId direction = kNone, sum_direction = kNone, orthogonalize = kNone;
};

// Returns true if two groups differ only in their blocks.
bool are_alike(const WeightGroup& a, const WeightGroup& b);

// The messages between two chunks of a pipeline that carry the same: hidden states of a stream, and
// with those between a decoder's layers the encoder's output.
struct BoundarySegments {
  SegmentId send_forward = kNone, receive_forward = kNone;
  SegmentId send_backward = kNone, receive_backward = kNone;
  // Run after the forward and after the backward if compiler.deallocate_pipeline_outputs = false.
  SegmentId keep_sent = kNone, release_sent = kNone;
};

// Where a pipeline may cut the model: what crosses is what is written before it and read after it.
struct Cut {
  size_t messages = 0;   // index in LoweredGraph::messages
  int64_t position = 0;  // on the stream that crosses
};

struct LoweredGraph {
  Program program;  // no buffers and no calls yet
  IdVector<BlockId, Block> blocks;
  IdVector<BlockId, BlockSegments> segments;
  IdVector<GroupId, WeightGroup> groups;
  BufferKindId encoder_output = kNone, encoder_output_gradient = kNone;
  SegmentId clear = kNone, clip = kNone, sum_report = kNone;
  std::vector<BoundarySegments> messages;
  std::vector<Cut> cuts;  // by the number of layers before the cut; empty without a pipeline
};

LoweredGraph lower(Graph graph, const Context& context, const StagesOfBlocks& holders);

}  // namespace tessera::compile
