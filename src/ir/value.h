// Values: the operands of ops, on one logical device, with their true (global, unpadded) shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/enum_array.h"
#include "base/id.h"
#include "base/shape.h"
#include "ir/role.h"

namespace tessera {

using ValueId = Id<struct ValueTag>;
using BufferKindId = Id<struct BufferKindTag>;

// Mesh axes, nested, outermost first. The order is fixed; a mesh sets their sizes.
enum class AxisKind : uint8_t {
  kPipeline,
  kReplica,
  kShard,
  kExpert,
  kContext,
  kTensorKv,
  kTensor
};
constexpr size_t count_of(AxisKind) { return static_cast<size_t>(AxisKind::kTensor) + 1; }

// The placement of a value on one axis: a dimension (0…: split), or one of these.
enum Placement : int8_t { kReplicated = -1, kShared = -2, kPartial = -3, kPartialMax = -4 };

// How kContext divides the dimension that it splits.
enum class ContextCut : uint8_t {
  kParts,  // rank r has part r of the tokens. Tensor axes divide a part further
  // Rank r of C has the chunks r and 2C − 1 − r of 2C: about the same number of causal pairs on
  // every rank. Tensor axes then divide the two chunks, joined in this order.
  kZigzag,
  kHeads,  // rank r has part r of the heads of a tensor-parallel rank: it nests inside these axes
};
constexpr size_t count_of(ContextCut) { return static_cast<size_t>(ContextCut::kHeads) + 1; }

struct Sharding {
  EnumArray<AxisKind, int8_t> place;
  ContextCut cut = ContextCut::kParts;  // kParts where kContext splits nothing
  Sharding() { place.fill(kReplicated); }
  bool operator==(const Sharding&) const = default;
};

// The purpose of a value that is a copy of another one, because it is computed or stored twice.
enum class CopyKind : uint8_t {
  kOriginal,    // not a copy
  kNoSave,      // in a forward that saves nothing
  kRecomputed,  // for the backward
  kHost,        // in the host's memory
};
constexpr size_t count_of(CopyKind) { return static_cast<size_t>(CopyKind::kHost) + 1; }

// The index set of a value: it exists once, per layer, per micro-batch, or both.
enum IndexSet : uint8_t { kOne = 0, kPerLayer = 1, kPerMicrobatch = 2 };

// The initial distribution of a weight: normal with this standard deviation, or a constant.
struct Initial {
  double std = 0, constant = 0;
  bool operator==(const Initial&) const = default;
};

// Some rows of a larger weight, which a layout makes a weight of its own; checkpoints contain only
// the larger one. For grouped heads [K, G+2, …] the rows are the queries, or the pairs of a key and
// a value; if key/value heads are replicated, each copy's queries are one row:
//   value [row, i, …]  is  parent [row / copies, first + (row % copies) · shape[1] + i, …]
struct ParentSlice {
  std::string name;  // "layer.attn.qkv.weight"
  Shape shape;       // [K, G+2, D, F]
  int64_t first = 0, copies = 1;
  bool operator==(const ParentSlice&) const = default;
};

// One of the matrices (or vectors) that a packed weight holds, each a tensor of its own in the
// published model: the elements whose index in dimension `dim` is in [first, first + count). For
// qkv [K, G+2, D, F] these are q (dim 1, first 0, count G), k (G, 1) and v (G + 1, 1).
struct WeightPart {
  std::string name;  // "q"
  int64_t dim = 0, first = 0, count = 0;
  bool operator==(const WeightPart&) const = default;
};

// Rows of a weight that makes queries or keys, of the rows that it has for each key/value head:
// [first, last). Muon's update multiplies them by min(1, limit / score)^share, where `scores` has
// the largest attention scores of the heads (ir/ops/max_scores.h).
struct ClippedRows {
  ValueId scores = kNone;
  int64_t first = 0, last = 0;
  double share = 1;
  bool operator==(const ClippedRows&) const = default;
};

// Value::policy of a router's biases, which follow the load of the experts (BalanceUpdate).
inline constexpr int64_t kBalancePolicy = -1;

// Returns the policy of weights that an optimizer of matrices (OptimizerTraits::matrices) with this
// policy leaves to AdamW. The function is its own inverse.
constexpr int64_t adamw_of(int64_t policy) { return -2 - policy; }
constexpr bool is_adamw_of(int64_t policy) { return policy < kBalancePolicy; }

struct Value {
  std::string name;  // "layer.attn.qkv.weight"
  DType dtype = DType::kF32;
  Shape shape;                // global and true: without padding
  std::optional<Shape> part;  // shape on one rank, if an axis splits it (ir/mesh.h); else that is
                              // `shape`
  Sharding sharding;
  Role role = Role::kActivation;
  uint8_t indexed_by = kOne;  // a set of IndexSet bits
  bool decays = false;        // weight decay applies to it: a matrix or table
  bool frozen = false;  // a weight that is not trained: it has no gradient and no optimizer state
  // A weight's group in the run's optimizer.groups, counted from 1; 0: it is in no group, so the
  // run's own optimizer updates it. kBalancePolicy: a router's biases; adamw_of().
  int64_t policy = 0;
  Initial initial;
  // The parts of a packed weight, which cover one dimension in order. Empty: the weight is one
  // matrix. Optimizers that treat a matrix as a whole work on these parts.
  std::vector<WeightPart> parts;
  std::vector<ClippedRows> clips;     // in ascending order; empty: no attention score limits it
  std::optional<ParentSlice> parent;  // for a weight that checkpoints contain only as a part of a
                                      // larger one
  CopyKind copy = CopyKind::kOriginal;
  ValueId of = kNone;           // the value that it is a copy of; for a gradient or factor, the
                                // weight; for a stored value of a quantized weight, the value that
                                // is computed from it
  BufferKindId buffer = kNone;  // kNone: scratch of its segment, or not laid out yet
  int64_t offset = kNone;       // bytes from the start of its buffer (or of the scratch)
  bool is_local_shard =
      false;  // a rank's shard of a flat buffer that holds the whole: at offset + index × bytes

  const Shape& local() const { return part ? *part : shape; }
  int64_t bytes() const { return local().elements() * size_of(dtype); }  // on one rank
  bool operator==(const Value&) const = default;
};

using ValueVector = IdVector<ValueId, Value>;
using ValueSpan = IdSpan<ValueId, Value>;

// Returns the suffix that is appended to a value's name for such a copy.
std::string_view suffix_of(CopyKind c);

// Returns the parts of a weight: those that it lists, or itself as one part without a name.
std::vector<WeightPart> parts_of(const Value& weight);

// Returns the name of a layer's value: "layer.attn.qkv.weight" of layer 7 is
// "layer7.attn.qkv.weight"; a name without a layer is unchanged.
std::string full_name(const Value& v, int64_t layer);

// Return the name and shape of a weight in checkpoints: its own, or those of the weight that it is
// a part of.
const std::string& checkpoint_name(const Value& v);
std::string checkpoint_name(const Value& v, int64_t layer);
const Shape& checkpoint_shape(const Value& v);

}  // namespace tessera
