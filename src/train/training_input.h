// The input of a run: the rows of its data in micro-batches, starting at the position of the run.
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
  // Opens the data of the run file. Throws the errors of require_own_datasets() and
  // TrainingRowReader.
  TrainingInput(const config::RunConfig& config, const data::Tokenizer& tokenizer);
  // Starts at the first sample that `from` has not consumed, or at the first sample, with the
  // batches of this data-parallel rank. Throws the errors of TrainingRowReader::continue_from().
  void begin(const config::RunConfig& config, int64_t data_rank,
             const std::optional<RunPosition>& from);

  const TrainingRowReader& rows() const { return rows_; }
  TrainingRowReader& rows() { return rows_; }
  // The following may be called only after begin().
  data::BatchSource& batches() { return *batches_; }
  int64_t sequences_of(int64_t step) const;     // global batch of a step (from 1)
  int64_t samples_before(int64_t steps) const;  // samples consumed by the first `steps` steps
  int64_t tokens_after(int64_t steps) const;    // tokens of the first `steps` steps, with padding
  int dataset_of(int64_t sample);               // see TrainingData::source_of; only for datasets
  Tree position_after(int64_t step);            // position for a checkpoint of that step

 private:
  void read_row(int64_t sample, const data::SampleRow& row);
  double chosen_factor(int64_t sample);

  bool weighs_tokens_ = false;  // orpo
  int64_t factor_step_ = -1;    // the step of `factor_`
  double factor_ = 0;
  TrainingRowReader rows_;
  std::unique_ptr<data::BatchSource> batches_;
};

}  // namespace tessera::train
