// What every verb that works with a model out of a CHECKPOINT does first.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"

namespace tessera::cli {

// Returns the checkpoint that the argument of a command refers to: of a run the newest whole one.
// Prints which one it is, and warnings about newer ones that are damaged, on rank 0's standard
// error. Throws Error if there is none.
Path choose_checkpoint(const std::string& argument);

// The tokenizer inside the checkpoint. Throws Error if there is none, with what to do.
std::unique_ptr<data::Tokenizer> tokenizer_of(const checkpoint::CheckpointReader& checkpoint);

// A number of threads that was asked for, or 0: all cores that this process may use.
int threads_or_all(int64_t asked);

}  // namespace tessera::cli
