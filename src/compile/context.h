// What all passes read: the request, and the decisions that are made from it once.
#pragma once

#include <cstdint>

#include "compile/layout.h"
#include "compile/request.h"
#include "ir/target.h"

namespace tessera::compile {

// ---- What ZeRO (Rajbhandari et al. 2020) decides for a layout: which state is sharded, and when
// weights are gathered and gradients reduced. lower/ makes the segments by it, schedule/ the calls.
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
  int64_t shards = 1;  // ranks that state is divided over
  WeightGather gather = WeightGather::kNever;
  GradientReduce reduce = GradientReduce::kNever;
  bool reduces_each = false;  // after each micro-batch, into the rank's part

  bool divides_optimizer() const { return reduce == GradientReduce::kReduceScatter; }
  bool divides_weights() const { return gather == WeightGather::kPerUse; }
};

ZeroPlan zero_plan(const Layout& layout);

struct Context {
  CompileRequest request;  // without dropout, except for training
  Recompute recompute;
  ZeroPlan zero;
  Target target;

  bool trains() const { return request.purpose == Purpose::kTrain; }
  bool generates() const {
    return request.purpose == Purpose::kLogits || request.purpose == Purpose::kDecode;
  }
};
// Throws Error for a recomputation that does not exist.
Context context_of(const CompileRequest& request, const Target& target);

}  // namespace tessera::compile
