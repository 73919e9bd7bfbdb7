// Conversions between placements on the mesh, some of which communicate, and messages between
// stages. No conversion changes the global value; `over` names the group of ranks (ir/mesh.h). On
// flat buffers (one dimension) a collective works in place if input and output are one value: it
// reads or writes this rank's own shard. A reduce_scatter into another value adds its shard there.
#pragma once

#include <optional>

#include "base/dtype.h"
#include "ir/group.h"
#include "ir/ops/fields.h"

namespace tessera {

// partial → the sum on every rank
struct AllReduce {
  static constexpr std::string_view kName = "all_reduce";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  bool max = false;  // partial_max → the maximum
  // For flat buffers: the dtype on the wire. Each rank's terms are rounded once, and so is the sum.
  // None: the dtype of the values.
  std::optional<DType> wire = std::nullopt;
  int64_t pieces = 1, piece = 0;  // reduces piece `piece` of `pieces` of the buffer
  static void fields(auto& self, auto&& visit) {
    visit("over", self.over, Print::kAlways);
    visit("max", self.max);
    visit("wire", self.wire);
    visit("pieces", self.pieces, Print::kUnlessDefault, between(1, kExactIntegers));
    visit("piece", self.piece, always_if(self.pieces > 1),
          between(0, static_cast<double>(self.pieces) - 1));
  }
  static const OpRule rule;
  bool operator==(const AllReduce&) const = default;
};

// partial → the sum, split along `dim`
struct ReduceScatter {
  static constexpr std::string_view kName = "reduce_scatter";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  int64_t dim = kNone;                       // kNone: the one dimension of a flat buffer
  std::optional<DType> wire = std::nullopt;  // as in all_reduce, but the sum is f32
  int64_t pieces = 1, piece = 0;             // as in all_reduce, for each rank's shard
  static void fields(auto& self, auto&& visit) {
    visit("over", self.over, Print::kAlways);
    visit("dim", self.dim, Print::kUnlessDefault, kDimension);
    visit("wire", self.wire);
    visit("pieces", self.pieces, Print::kUnlessDefault, between(1, kExactIntegers));
    visit("piece", self.piece, always_if(self.pieces > 1),
          between(0, static_cast<double>(self.pieces) - 1));
  }
  static const OpRule rule;
  bool operator==(const ReduceScatter&) const = default;
};

// split along `dim` → whole on every rank
struct AllGather {
  static constexpr std::string_view kName = "all_gather";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  int64_t dim = kNone;
  static void fields(auto& self, auto&& visit) {
    visit("over", self.over, Print::kAlways);
    visit("dim", self.dim, Print::kUnlessDefault, kDimension);
  }
  static const OpRule rule;
  bool operator==(const AllGather&) const = default;
};

// split along `from` → split along `to`: each rank sends every other rank its part along `to`. Both
// dimensions are multiples of the number of ranks.
struct AllToAll {
  static constexpr std::string_view kName = "all_to_all";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  int64_t from = 0, to = 0;
  static void fields(auto& self, auto&& visit) {
    visit("over", self.over, Print::kAlways);
    visit("from", self.from, Print::kAlways, kDimension);
    visit("to", self.to, Print::kAlways, kDimension);
  }
  static const OpRule rule;
  bool operator==(const AllToAll&) const = default;
};

// The value of the previous rank of the group, and on the first rank that of the last. It has the
// sharding of the operand: its global value is that of the operand with the shards in another
// order.
struct Rotate {
  static constexpr std::string_view kName = "rotate";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  static void fields(auto& self, auto&& visit) { visit("over", self.over, Print::kAlways); }
  static const OpRule rule;
  bool operator==(const Rotate&) const = default;
};

// whole → this rank's own shard along `dim`; no communication
struct Slice {
  static constexpr std::string_view kName = "slice";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  int64_t dim = kNone;
  static void fields(auto& self, auto&& visit) {
    visit("over", self.over, Print::kAlways);
    visit("dim", self.dim, Print::kUnlessDefault, kDimension);
  }
  static const OpRule rule;
  bool operator==(const Slice&) const = default;
};

// this rank's own shard → whole, with zeros elsewhere, which is partial; no communication
struct Pad {
  static constexpr std::string_view kName = "pad";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  int64_t dim = kNone;
  static void fields(auto& self, auto&& visit) {
    visit("over", self.over, Print::kAlways);
    visit("dim", self.dim, Print::kUnlessDefault, kDimension);
  }
  static const OpRule rule;
  bool operator==(const Pad&) const = default;
};

// replicated → shared: the same value, but the gradients of its uses differ. The pass
// remove_mark_shared removes all of these ops.
struct MarkShared {
  static constexpr std::string_view kName = "mark_shared";
  enum In { kX };
  enum Out { kY };
  GroupRef over = {};
  static void fields(auto& self, auto&& visit) { visit("over", self.over, Print::kAlways); }
  static const OpRule rule;
  bool operator==(const MarkShared&) const = default;
};

enum class AdjacentStage : uint8_t { kNext, kPrevious };
constexpr const char* enum_names(AdjacentStage) { return "next|previous"; }

// Sends the buffer of a hidden stream to another stage.
struct Send {
  static constexpr std::string_view kName = "send";
  enum In { kX };
  AdjacentStage to = AdjacentStage::kNext;
  static void fields(auto& self, auto&& visit) { visit("to", self.to, Print::kAlways); }
  static const OpRule rule;
  bool operator==(const Send&) const = default;
};

// Receives the buffer of a hidden stream from another stage.
struct Receive {
  static constexpr std::string_view kName = "receive";
  enum Out { kY };
  AdjacentStage from = AdjacentStage::kPrevious;
  DType type = DType::kF32;
  Shape shape = {};
  static void fields(auto& self, auto&& visit) {
    visit("from", self.from, Print::kAlways);
    visit("type", self.type, Print::kAlways);
    visit("shape", self.shape, Print::kAlways);
  }
  static const OpRule rule;
  bool operator==(const Receive&) const = default;
};

}  // namespace tessera
