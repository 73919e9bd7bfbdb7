// What ZeRO (Rajbhandari et al. 2020) decides for a layout: which state a rank has only its part
// of, who gathers weights and who reduces gradients. lower/ makes the segments by it, schedule/ the
// calls.
//
//   stage   optimizer   gradients   weights     gather     reduce
//   0       whole       whole       whole       never      all_reduce after the last micro-batch
//   1       its part    whole       whole       per step   reduce_scatter, as layout.zero_reduce
//   says 2       its part    its part    whole       per step   reduce_scatter after each
//   micro-batch 3       its part    its part    its part    per use    reduce_scatter after each
//   micro-batch
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
