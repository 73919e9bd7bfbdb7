// The roles of values, and what they decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

// The role of a value, which decides its buffer.
enum class Role : uint8_t {
  kWeight,        // a parameter of the model, in the dtype that GEMMs read
  kMaster,        // its f32 copy, if GEMMs read a narrower dtype than updates need
  kGradient,      // gradient of a weight: sum over the loss tokens of the step
  kMoment1,       // running mean of gradients
  kMoment2,       // running mean of their squares
  kIterate,       // the sequence of weights that gradients update (schedule-free optimizers)
  kAverage,       // exponential mean of a weight over the steps
  kMoment1Scale,  // scales of moments in 8 bits, one per block of moments (base/moment_code.h)
  kMoment2Scale,
  kFactoredMoment,  // running means of squares per row and column of a matrix (Adafactor)
  kPacked,          // a weight in the memory layout that the GEMM library prefers
  kBatch,           // an input of a micro-batch; inputs of the model have the roles that follow:
  kTokens,          // token ids
  kLabels,          // token ids to predict
  kPositions,
  kSamples,     // indices of the samples
  kDocuments,   // index of the document of each token
  kMtpTokens,   // token ids some positions ahead, one value per depth (multi-token prediction)
  kMtpLabels,   // labels likewise
  kAnswers,     // number of the answer that each label belongs to; -1: none
  kReferences,  // figures of the answers of a row: see ir/ops/preference.h
  kSource,      // token ids that an encoder reads
  kStep,        // learning rate, step number, seed: see ir/state.h
  kReport,      // loss, tokens, squares: see ir/state.h
  kMaxScores,   // largest attention scores of a step: see ir/ops/max_scores.h
  kLogits,      // logits of all tokens, for the host
  kCache,       // keys and values of the tokens processed so far
  kHidden,      // hidden states between blocks
  kHiddenGradient,
  kActivation,  // inside a block; saved if the backward reads it
  kScratch,     // gradients of activations, workspaces: exist within one segment
};
constexpr size_t count_of(Role) { return static_cast<size_t>(Role::kScratch) + 1; }

// Returns true for optimizer state with an element for each element of its weight.
constexpr bool is_state_of_elements(Role r) { return r >= Role::kMoment1 && r <= Role::kAverage; }
// Returns true for the scales of moments in 8 bits.
constexpr bool is_moment_scale(Role r) {
  return r == Role::kMoment1Scale || r == Role::kMoment2Scale;
}
// Returns true for optimizer state in flat buffers, which ZeRO divides.
constexpr bool is_flat_state(Role r) {
  return r == Role::kMaster || is_state_of_elements(r) || is_moment_scale(r);
}
// Returns true for optimizer state whose initial value is that of its weight; other state is zero.
constexpr bool starts_as_weight(Role r) { return r == Role::kIterate || r == Role::kAverage; }

// Returns true if the host writes it for each micro-batch.
constexpr bool is_batch(Role r) { return r >= Role::kBatch && r <= Role::kSource; }

// Returns true for values that the micro-batches of a step complete: ops add to them (kMaxScores:
// raise them), and the first one overwrites what the last step left.
constexpr bool is_of_step(Role r) { return r == Role::kGradient || r == Role::kMaxScores; }

// Returns true for values that ops of blocks compute.
constexpr bool is_computed(Role r) {
  return r == Role::kActivation || r == Role::kScratch || r == Role::kHidden ||
         r == Role::kHiddenGradient;
}

// Returns the name of a role in printed programs. All roles of batches are printed as "batch", and
// report and logits both as "report"; the name of the value distinguishes them.
std::string_view name_of(Role r);
// Returns the name of the only value with that role; empty for roles that many values have. A name
// of kMtpTokens and kMtpLabels is followed by the value's depth, from 1.
std::string_view value_name(Role r);
}  // namespace tessera
