// Schedule pass: where weights and gradients live, and the calls that gather and reduce them.
//   before  a frame of weights and of gradients for each layer, alive throughout
//   after   by ZeRO stage (Rajbhandari et al. 2020):
//
//   stage   weights frame             gradients frame    reduce
//   0, 1    the whole run             the whole step     once, after the last addition
//   2       the whole run             one micro-batch    after each, added to the rank's part
//   3       one gather a use          one micro-batch    after each, added to the rank's part
//
// Stages 1 and 2 leave only the own part of the weights new, so every program starts with gathers.
// Then what is partial for other reasons is summed: over replicas and tensor ranks (`finish`), over
// the stages that share a weight (`join`), and the report over all ranks.
#pragma once

#include "compile/lower/expanded.h"
#include "compile/zero_plan.h"

namespace tessera {

void zero(Program& program, const Expanded& expanded, const ZeroPlan& plan);

}  // namespace tessera
