// Coarse ops on values. What an op means, its shapes, sharding, gradient and cost stand in one
// file each: ir/ops/<op>.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/group.h"
#include "ir/value.h"

namespace tessera {

enum class OpKind : uint8_t {
  kEmbedding,
  kEmbeddingGrad,
  kNorm,
  kNormGrad,
  kRmsNorm,
  kRmsNormGrad,
  kMatmul,
  kMatmulGradInput,
  kMatmulGradWeight,
  kRotary,
  kRepeatHeads,
  kRepeatHeadsGrad,
  kJoinHeads,
  kJoinHeadsGrad,
  kAttention,
  kAttentionGrad,
  kCachedAttention,
  kAttentionScores,
  kAttentionScoresGrad,
  kSoftmax,
  kSoftmaxGrad,
  kAttentionMix,
  kAttentionMixGrad,
  kGelu,
  kGeluGrad,
  kGatedActivation,
  kGatedActivationGrad,
  kSum,
  kScale,
  kAccumulate,
  kBiasGrad,
  kDropout,
  kDropoutGrad,
  kCast,
  kCopy,
  kCrossEntropy,
  kLinearCrossEntropy,
  kLogitsMax,
  kLogitsSums,
  kDividedCrossEntropy,
  kClear,
  kPack,
  kSquares,
  kClip,
  kAdamw,
  kLion,
  kSgd,
  kAdafactorSums,
  kAdafactorSquares,
  kAdafactor,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kSlice,
  kPad,
  kShare,
  kSend,
  kReceive,
  kCount,
};

// Constants of an op, fixed when the program is made. Few and named; printed in this order.
class Attributes {
 public:
  using Constant = std::variant<int64_t, double, std::string, GroupRef>;

  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Constant>> list) : list_(list) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double number(std::string_view name, double otherwise = 0) const;
  std::string text(std::string_view name) const;
  const GroupRef& group(std::string_view name) const;
  void set(std::string_view name, Constant c);
  const std::vector<std::pair<std::string, Constant>>& list() const { return list_; }
  bool operator==(const Attributes&) const = default;

 private:
  const Constant* find(std::string_view name) const;
  std::vector<std::pair<std::string, Constant>> list_;
};

// The line of execution an op or call stands in: first in, first out.
enum class Queue : uint8_t {
  kCompute,
  kCopyIn,
  kCopyOut,
  kData,             // gathers and reductions over the ranks that share a flat frame
  kGroups,           // reductions over other groups
  kSendForward,      // to the next stage
  kReceiveForward,   // from the stage before
  kSendBackward,     // to the stage before
  kReceiveBackward,  // from the next stage
};
constexpr int kQueues = 9;

struct Op {
  OpKind kind = OpKind::kSum;
  Attributes attributes;
  std::vector<ValueId> inputs, outputs;
  ValueId workspace = kNone;  // scratch bytes the target asks for
  ValueId packed = kNone;     // of products: the packed form of the weight, if the target has one
  Queue queue = Queue::kCompute;
  std::string origin;  // "attn.qkv": what the op does in its block, for messages
  bool operator==(const Op&) const = default;
};

}  // namespace tessera
