// The position of a run in its data. Checkpoints store it, and a resumed run continues from it.
#pragma once

#include <vector>

#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "data/batches.h"
#include "data/data_position.h"
#include "data/tokenizer.h"

namespace tessera::train {

// The position after `step` steps: the data that they have consumed, and their batch sizes since
// the first step.
struct RunPosition {
  int64_t step = 0;
  data::DataPosition data;
  std::vector<data::BatchPeriod> batches;
  bool operator==(const RunPosition&) const = default;
};

// Returns the position after `step` steps of `shape`; `data` is the position of the data then.
RunPosition position_after(int64_t step, data::DataPosition data, const data::BatchShape& shape);

// Convert a position to and from the member "data" of a checkpoint's `state`. Reading throws Error,
// which names `source`, if numbers are out of range or inconsistent.
Tree to_tree(const RunPosition& position);
RunPosition position_from_tree(const Tree& tree, int64_t step, const std::string& source);

// Returns the position that a checkpoint stores. If its version stored none, the position is
// derived from the step, the batch and the batch-size warm-up of its own configuration, which opens
// the datasets of that configuration. `folder` names the checkpoint in errors. Throws Error if the
// position is damaged or those datasets are missing.
RunPosition position_of(const checkpoint::CheckpointHeader& header, const std::string& folder,
                        const data::Tokenizer& tokenizer);

// Returns `shape` with the row lengths of TrainingRowReader or TrainingData.
template <class Rows>
data::BatchShape with_row_lengths(data::BatchShape shape, const Rows& rows) {
  shape.sequence_length = rows.row_tokens();
  shape.source_length = rows.row_source();
  if constexpr (requires { rows.references(); }) shape.references = rows.references();
  return shape;
}

// Returns `shape` (with its row lengths) for the steps after a position. The first of them starts
// at the first sample that is not consumed, whatever batch size, batch-size warm-up and layout the
// earlier steps had.
data::BatchShape resumed(data::BatchShape shape, const RunPosition& position);

// Throws Error if the tokens of the checkpoint's tokenizer stand for other texts in the run's,
// unless checkpoint.allow_changes is set, or data.allow_foreign_tokenizer is set and the run does
// not resume.
void require_same_tokenizer(const config::RunConfig& config, const Path& checkpoint, bool resumes,
                            const data::Tokenizer& tokenizer);

}  // namespace tessera::train
