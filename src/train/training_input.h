// The input of a run: the rows of its data in micro-batches, from the position of the run on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/batches.h"
#include "train/run_data.h"
#include "train/run_position.h"

namespace tessera::train {

class TrainingInput {
 public:
  // Opens the data of the run file. Throws Error as require_own_datasets and TrainingRows.
  TrainingInput(const config::RunConfig& config, const data::Tokenizer& tokenizer);
  // Starts at the first sample that `from` has not consumed, or at the first of all, with the
  // batches of this data rank. Throws Error as TrainingRows::continue_from.
  void begin(const config::RunConfig& config, int64_t data_rank,
             const std::optional<RunPosition>& from);

  const TrainingRows& rows() const { return rows_; }
  // From here on: after begin().
  data::BatchSource& batches() { return *batches_; }
  int64_t sequences_of(int64_t step) const;     // of a step, from 1
  int64_t samples_before(int64_t steps) const;  // consumed by the first `steps` steps
  int64_t tokens_after(int64_t steps) const;    // of the rows of `steps` steps, padding included
  Tree position_after(int64_t step);            // for a checkpoint of that step

 private:
  TrainingRows rows_;
  std::unique_ptr<data::BatchSource> batches_;
};

}  // namespace tessera::train
