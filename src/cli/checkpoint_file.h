// Opens the CHECKPOINT argument of a command: chooses the checkpoint and loads its tokenizer.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/arguments.h"
#include "cli/status_line.h"
#include "data/tokenizer.h"

namespace tessera::cli {

// Returns the checkpoint that the argument refers to: for a run, the newest intact one. On rank 0,
// prints to standard error which one it is, and warnings about newer ones that are damaged. Throws
// Error if there is none.
Path choose_checkpoint(const std::string& argument);

// Adds --weights, which chooses the trained weights or their exponential mean.
void add_weights(Arguments& arguments, std::string& weights);
// Returns true for the mean. Throws UsageError for another value than `trained` and `ema`.
bool is_average(const std::string& weights);

// Opens the checkpoint that choose_checkpoint() returns, to read these weights.
checkpoint::CheckpointReader open_checkpoint(const std::string& argument,
                                             const std::string& weights);

// Returns a callback that shows "VERB: 12 of 148 tensors" in `status`, which must outlive it.
checkpoint::OnTensor show_tensors(StatusLine& status, std::string verb);

// Returns the tokenizer that the checkpoint contains. Throws Error if there is none.
std::unique_ptr<data::Tokenizer> tokenizer_of(const checkpoint::CheckpointReader& checkpoint);

// Returns the requested number of threads, or for 0 the number of cores that this process may use.
// Throws UsageError if it is out of range.
int threads_or_all(int64_t asked);

}  // namespace tessera::cli
