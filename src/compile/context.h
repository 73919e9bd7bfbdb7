// The input of all passes: the request, and decisions that are derived from it once.
#pragma once

#include <cstdint>

#include "compile/layout.h"
#include "compile/request.h"
#include "ir/target.h"

namespace tessera::compile {

// ---- What ZeRO (Rajbhandari et al. 2020) means for a layout: which state is sharded, when weights
// are gathered and when gradients are reduced. lower/ creates the segments, schedule/ the calls.
//
// clang-format off
//   stage   optimizer   gradients   weights   gather     reduce
//   0       whole       whole       whole     never      all_reduce, per step
//   1       sharded     whole       whole     per step   reduce_scatter, by layout.zero_reduce
//   2       sharded     sharded     whole     per step   reduce_scatter, per micro-batch
//   3       sharded     sharded     sharded   per use    reduce_scatter, per micro-batch
// clang-format on

enum class WeightGather : uint8_t { kNever, kPerStep, kPerUse };
enum class GradientReduce : uint8_t { kNever, kAllReduce, kReduceScatter };

struct ZeroPlan {
  int64_t shards = 1;  // ranks over which state is divided
  WeightGather gather = WeightGather::kNever;
  GradientReduce reduce = GradientReduce::kNever;
  bool reduces_each = false;  // after each micro-batch, into this rank's shard

  bool divides_optimizer() const { return reduce == GradientReduce::kReduceScatter; }
  bool divides_weights() const { return gather == WeightGather::kPerUse; }
};

ZeroPlan zero_plan(const Layout& layout);

struct Context {
  CompileRequest request;  // dropout is 0 except for training
  Recompute recompute;
  ZeroPlan zero;
  Target target;

  bool trains() const { return request.kind == ProgramKind::kTrain; }
  bool generates() const {
    return request.kind == ProgramKind::kLogits || request.kind == ProgramKind::kDecode;
  }
};
// Throws Error if layout.recompute is not valid.
Context context_of(const CompileRequest& request, const Target& target);

}  // namespace tessera::compile
