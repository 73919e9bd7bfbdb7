// The state of a step is data, not attributes: two small f64 vectors that ops read and add to.
#pragma once

namespace tessera {

// Value `step` (f64[kStepSize]): written by the host before each run of a program.
enum StepSlot : int {
  kStepNumber = 0,    // from 1: the key of dropout
  kLearningRate = 1,  // of this step
  kSeed = 2,          // of the run, for dropout and stochastic rounding
  kLossScale = 3,     // what the gradient of the loss begins with: 1, but under fp16
  kSkipBefore = 4,    // 1: this step is skipped because the one before was (Executor::start)
  kUpdate = 5,        // t of the optimizer, from 1: the updates before this step that were not
                      // skipped, plus 1
  kStepSize = 8,
};

// Value `report` (f64[kReportSize]): cleared at the start of a program, read by the host after it.
enum ReportSlot : int {
  kLossSum = 0,     // nats, over the loss tokens
  kLossTokens = 1,  // how many
  kSquares = 2,     // sum of squares of the summed gradients, with their loss scale
  kGradNorm = 3,    // of the mean gradient, before clipping
  kScale = 4,       // what update multiplies the summed gradient by: clip / (tokens x loss scale)
  kSkip = 5,        // 1: a value was not finite, or kSkipBefore: update must change nothing
  kRouterLoss = 6,  // losses of the routers of all layers, times the loss tokens of sequences
  kBusiestExpert = 7,  // load of a layer's busiest expert / mean load, times the same tokens
  kReportSize = 8,
};

}  // namespace tessera
