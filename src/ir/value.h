// Values: what ops read and write, on one logical device, with their true (global, unpadded) shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/enum_array.h"
#include "base/id.h"
#include "base/shape.h"

namespace tessera {

using ValueId = Id<struct ValueTag>;
using FrameKindId = Id<struct FrameKindTag>;

// Mesh axes, nested, outermost first. The order is fixed; a mesh gives each a size.
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

// Where a value stands on one axis: on a dimension (0…: split), or one of these.
enum AxisPlace : int8_t { kReplicated = -1, kShared = -2, kPartial = -3, kPartialMax = -4 };

struct Sharding {
  EnumArray<AxisKind, int8_t> place;
  Sharding() { place.fill(kReplicated); }
  bool operator==(const Sharding&) const = default;
};

// What a value is for: decides the frame it lives in.
enum class Role : uint8_t {
  kWeight,    // what is trained, in the type that products read
  kMaster,    // the same in f32, where products read less and updates need more
  kGradient,  // of a weight: sum over the loss tokens of the step
  kMoment1,   // running mean of gradients
  kMoment2,   // running mean of their squares
  kFactor,    // the same of rows and columns of a matrix: Adafactor's
  kPacked,    // a weight in the layout the product library likes best
  kBatch,     // an input of a micro-batch; the model's have roles of their own:
  kTokens,    // token ids
  kLabels,    // token ids to predict
  kPositions,
  kSamples,    // numbers of the samples
  kDocuments,  // numbers of the documents of the tokens
  kSource,     // token ids that an encoder reads
  kStep,       // learning rate, step number, seed: see ir/state.h
  kReport,     // loss, tokens, squares: see ir/state.h
  kLogits,     // of all tokens, for the host
  kCache,      // keys and values of the tokens seen so far
  kStream,     // hidden states between blocks
  kStreamGradient,
  kActivation,  // inside a block; saved if the backward reads it
  kScratch,     // gradients of activations, workspaces: one segment long
};
constexpr size_t count_of(Role) { return static_cast<size_t>(Role::kScratch) + 1; }

// Whether the host writes it for each micro-batch.
constexpr bool is_batch(Role r) { return r >= Role::kBatch && r <= Role::kSource; }

// What a value that is computed twice, or kept twice, is a copy for.
enum class CopyKind : uint8_t {
  kOriginal,    // no copy
  kNoSave,      // of a forward that saves nothing
  kRecomputed,  // for the backward
  kHost,        // in the memory of the host
};
constexpr size_t count_of(CopyKind) { return static_cast<size_t>(CopyKind::kHost) + 1; }

// What a value has one of each for.
enum Index : uint8_t { kOne = 0, kPerLayer = 1, kPerMicrobatch = 2 };

// How a weight starts: normal with this standard deviation, or a constant.
struct Initial {
  double std = 0, constant = 0;
  bool operator==(const Initial&) const = default;
};

// A weight that a layout makes of some rows of a larger one, by which alone checkpoints know it.
// Of grouped heads [K, G+2, …] these are the queries or the pairs of a key and a value; where each
// key/value head has several copies, a copy's queries are a row:
//   value [row, i, …]  is  whole [row / copies, first + (row % copies) · shape[1] + i, …]
struct PartOf {
  std::string name;  // "layer.attn.qkv.weight"
  Shape shape;       // [K, G+2, D, F]
  int64_t first = 0, copies = 1;
  bool operator==(const PartOf&) const = default;
};

// One of the matrices (or vectors) that a packed weight holds, each a tensor of its own in the
// published model: the elements whose index in dimension `dim` is in [first, first + count). Of
// qkv [K, G+2, D, F] these are q (dim 1, first 0, count G), k (G, 1) and v (G + 1, 1).
struct WeightPart {
  std::string name;  // "q"
  int64_t dim = 0, first = 0, count = 0;
  bool operator==(const WeightPart&) const = default;
};

// Value::policy of a router's biases, which follow the load of the experts (BalanceUpdate).
inline constexpr int64_t kBalancePolicy = -1;

struct Value {
  std::string name;  // "layer.attn.qkv.weight"
  DType dtype = DType::kF32;
  Shape shape;                // global and true: without padding
  std::optional<Shape> part;  // of one rank, where an axis splits it (ir/mesh.h); else as `shape`
  Sharding sharding;
  Role role = Role::kActivation;
  uint8_t per = kOne;   // of Index
  bool decays = false;  // a weight that weight decay applies to: a matrix or table
  bool frozen = false;  // a weight that is not trained: no gradient, nothing kept by the optimizer
  // A weight's group in the run's optimizer.groups, counted from 1; 0: it is in none, so the run's
  // own optimizer updates it.
  // kBalancePolicy: a router's biases.
  int64_t policy = 0;
  Initial initial;
  // The parts of a packed weight, all in one dimension, which they cover in order. Empty: the
  // weight is one matrix. Optimizers that treat a matrix as a whole work on these.
  std::vector<WeightPart> parts;
  std::optional<PartOf> whole;  // of a weight: where checkpoints know it as a part of another
  CopyKind copy = CopyKind::kOriginal;
  ValueId of = kNone;         // what it is a copy of; of a gradient or factor, the weight
  FrameKindId frame = kNone;  // kNone: scratch of its segment, or not laid out yet
  int64_t offset = kNone;     // bytes from the start of its frame (or of the scratch)
  bool own =
      false;  // a rank's part of a flat frame that holds the whole: at offset + index × bytes

  const Shape& local() const { return part ? *part : shape; }
  int64_t bytes() const { return local().elements() * size_of(dtype); }  // on one rank
  bool operator==(const Value&) const = default;
};

using ValueVector = IdVector<ValueId, Value>;
using ValueSpan = IdSpan<ValueId, Value>;

// The word of a role in the printed text. The roles of a batch share "batch", report and logits
// share "report": there the name of the value tells them apart.
std::string_view name_of(Role r);
// The name of the one value of that role; empty for roles that many values have.
std::string_view value_name(Role r);
// What is appended to the name of a value for a copy of it.
std::string_view suffix_of(CopyKind c);

// The parts of a weight: those that it names, or itself as one part without a name.
std::vector<WeightPart> parts_of(const Value& weight);

// "layer.attn.qkv.weight" of layer 7 is "layer7.attn.qkv.weight"; a name without layer stays.
std::string full_name(const Value& v, int64_t layer);

// Of a weight, as checkpoints know it: its own, or that of which it is a part.
const std::string& known_name(const Value& v);
std::string known_name(const Value& v, int64_t layer);
const Shape& known_shape(const Value& v);

}  // namespace tessera
