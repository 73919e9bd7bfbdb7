// The state of a step is data, not attributes: two small f64 vectors that ops read and add to.
#pragma once

namespace tessera {

// Value `step` (f64[kStepSize]): written by the host before each run of a program.
enum StepSlot : int {
  kStepNumber = 0,       // from 1: the key of dropout
  kLearningRate = 1,     // for this step
  kSeed = 2,             // the run's seed, for dropout and stochastic rounding
  kLossScale = 3,        // initial gradient of the loss: 1, except with fp16
  kPreviousSkipped = 4,  // 1: skip this step because the previous one was skipped (Executor::start)
  kUpdate = 5,           // t of the optimizer, from 1: the number of earlier updates that were not
                         // skipped, plus 1
  kAverageShare = 6,     // schedule_free: the share of this step's z in x
  kStepSize = 8,
};

// Value `report` (f64[kReportSize]): cleared at the start of a program, read by the host after it.
enum ReportSlot : int {
  kLossSum = 0,     // nats, over the loss tokens
  kLossTokens = 1,  // their number
  kSquareSum = 2,   // sum of squares of the summed gradients, including the loss scale
  kGradNorm = 3,    // norm of the mean gradient, before clipping
  kScale = 4,       // factor of the summed gradient in update: clip / (tokens x loss scale)
  kSkip = 5,  // 1: a value was not finite, or kPreviousSkipped is set; update must change nothing
  kRouterLoss = 6,     // router losses of all layers, times the loss tokens of the sequences
  kBusiestExpert = 7,  // load of a layer's busiest expert / mean load, times the same tokens
  kLoadEntropy = 8,    // entropy of a layer's loads / that of even loads, times the same tokens
  kZLoss = 9,          // z-loss of the logits, over the loss tokens
  kMtpLoss = 10,       // cross-entropy of multi-token prediction, over its own loss tokens …
  kMtpTokens = 11,     // … and their number, both summed over the depths
  // Of losses of preferences (ir/ops/preference.h), where kLossTokens counts pairs. Sums over the
  // pairs; of kto, over the desirable and over the undesirable examples.
  kChosenReward = 12,
  kRejectedReward = 13,
  kPreferred = 14,  // pairs whose chosen answer has the larger reward; of kto, desirable examples
  kChosenLogProb = 15,
  kRejectedLogProb = 16,
  kObjectiveFigure = 17,  // orpo: cross-entropy of the chosen answers; kto: z, once per example
  kDroppedPairs = 18,     // share of a layer's pairs beyond the capacity, times the loss tokens
  kReportSize = 24,
};

}  // namespace tessera
