// The position of a run in its data, as checkpoints store it and a resumed run continues from it.
#pragma once

#include <vector>

#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "data/batches.h"
#include "data/data_position.h"
#include "data/tokenizer.h"

namespace tessera::train {

// After `step` steps: what they have consumed, and by which batch sizes, from the first step on.
struct RunPosition {
  int64_t step = 0;
  data::DataPosition data;
  std::vector<data::BatchPeriod> batches;
  bool operator==(const RunPosition&) const = default;
};

// Returns the position after `step` steps of `shape`; `data` is the position of the data then.
RunPosition position_after(int64_t step, data::DataPosition data, const data::BatchShape& shape);

// The member "data" of a checkpoint's `state`. Throws Error, naming `source`, for a tree whose
// numbers are out of range or do not add up.
Tree to_tree(const RunPosition& position);
RunPosition position_from_tree(const Tree& tree, int64_t step, const std::string& source);

// Returns the position that a checkpoint stores. For a checkpoint of a version that stored none, it
// follows from the step with the batch and the ramp of its own configuration; for a blend, this
// opens the data sets of that configuration. `folder` names the checkpoint in errors. Throws Error
// if the position is damaged or those data sets are missing.
RunPosition position_of(const checkpoint::CheckpointHeader& header, const std::string& folder,
                        const data::Tokenizer& tokenizer);

// Returns `shape` with the lengths of the rows of TrainingRows or TrainingData.
template <class Rows>
data::BatchShape with_row_lengths(data::BatchShape shape, const Rows& rows) {
  shape.sequence_length = rows.row_tokens();
  shape.source_length = rows.row_source();
  return shape;
}

// Returns `shape` (with its row lengths) for the steps that follow: the first of them takes the
// first sample that is not consumed, whatever the batch, its ramp and the layout were before.
data::BatchShape resumed(data::BatchShape shape, const RunPosition& position);

// Throws Error if the tokens of the checkpoint's tokenizer stand for other texts in the run's,
// unless checkpoint.allow_changes is set, or data.allow_foreign_tokenizer where the run does not
// resume.
void require_same_tokenizer(const config::RunConfig& config, const Path& checkpoint, bool resumes,
                            const data::Tokenizer& tokenizer);

}  // namespace tessera::train
