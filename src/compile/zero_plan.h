// What ZeRO (Rajbhandari et al. 2020) decides for a layout: which state is sharded, and when
// weights are gathered and gradients reduced. lower/ makes the segments by it, schedule/ the calls.
//
// clang-format off
//   stage   optimizer   gradients   weights   gather     reduce
//   0       whole       whole       whole     never      all_reduce, per step
//   1       sharded     whole       whole     per step   reduce_scatter, by layout.zero_reduce
//   2       sharded     sharded     whole     per step   reduce_scatter, per micro-batch
//   3       sharded     sharded     sharded   per use    reduce_scatter, per micro-batch
// clang-format on
#pragma once

#include <cstdint>

#include "compile/layout.h"

namespace tessera {

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

}  // namespace tessera
