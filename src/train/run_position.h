// Where a run is in its data, as its checkpoints store it and a resumed run takes it up.
#pragma once

#include <vector>

#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "data/batches.h"
#include "data/data_position.h"
#include "data/tokenizer.h"
#include "train/run_config.h"

namespace tessera {

// After `step` steps: what they have consumed, and by which batch sizes, from the first step on.
struct RunPosition {
  int64_t step = 0;
  DataPosition data;
  std::vector<BatchPeriod> batches;
  bool operator==(const RunPosition&) const = default;
};

// The position after `step` steps of `shape`, of which the data says `data`.
RunPosition position_after(int64_t step, DataPosition data, const BatchShape& shape);

// The member "data" of a checkpoint's `state`. Throws Error, naming `source`, for a tree whose
// numbers cannot be or do not add up.
Tree to_tree(const RunPosition& position);
RunPosition position_from_tree(const Tree& tree, int64_t step, const std::string& source);

// The position that a checkpoint stores. One of a version that stored none has consumed what its
// step makes with the batch and the ramp of its own configuration; for a blend that opens the data
// sets of that configuration. `folder` names it in errors. Throws Error for a damaged position, and
// where those data sets are missing.
RunPosition position_of(const CheckpointHeader& header, const std::string& folder,
                        const Tokenizer& tokenizer);

// `shape` (with its row lengths) for the steps that follow: its first step takes the first sample
// that is not consumed, whatever the batch, its ramp and the layout were before.
BatchShape resumed(BatchShape shape, const RunPosition& position);

// Throws Error, unless checkpoint.allow_changes, if the tokens of the checkpoint's tokenizer stand
// for other texts in the run's.
void require_same_tokenizer(const RunConfig& config, const Path& checkpoint,
                            const Tokenizer& tokenizer);

}  // namespace tessera
