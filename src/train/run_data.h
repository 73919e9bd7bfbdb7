// The data of a run file: the samples to train on, and the validation sets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/data_position.h"
#include "data/instructions.h"
#include "data/preferences.h"
#include "data/training_data.h"
#include "train/metrics.h"

namespace tessera::train {

// Returns the datasets to train on. `vocabulary` is that of the tokenizer; data with other ids is
// rejected when it is read.
data::DatasetSpec training_spec(const config::RunConfig& config, int64_t vocabulary);

// Returns the same with the special tokens that data.objective = span_corruption needs. Throws
// Error for a tokenizer without sentinels or end-of-text token.
data::DatasetSpec training_spec(const config::RunConfig& config, int64_t vocabulary,
                                const data::Tokenizer& tokenizer);

data::InstructionSpec instruction_spec(const config::RunConfig& config,
                                       const data::Tokenizer& tokenizer);

// Opens preference data as the objective uses it.
std::unique_ptr<data::PreferenceData> preference_data(const config::RunConfig& config,
                                                      const data::InstructionSpec& spec,
                                                      const data::Tokenizer& tokenizer);

// The rows that a run trains on, from datasets, from instruction files, or from pairs of answers if
// the objective compares answers. Only position() may be called from several threads at once.
class TrainingRowReader {
 public:
  // Opens the data. Throws the errors of TrainingData or InstructionData, and with an encoder those
  // of require_padding().
  TrainingRowReader(const config::RunConfig& config, int64_t vocabulary,
                    const data::Tokenizer& tokenizer);

  // These two have the same contracts as those of TrainingData. All instruction files together are
  // one source.
  void continue_from(const data::DataPosition& saved, bool changes);
  data::DataPosition position(int64_t samples);
  // Returns the dataset of a sample; there must be datasets. May be called like position().
  int dataset_of(int64_t sample) { return datasets_->source_of(sample); }
  int64_t sources() const { return datasets_ ? datasets_->datasets() : 1; }

  void read_row(int64_t sample, const data::SampleRow& row);
  int64_t row_tokens() const { return tokens_; }  // tokens per row
  int64_t row_source() const { return source_; }  // encoder tokens per row; 0: no encoder
  int64_t tokens() const;                         // tokens of all data
  struct MostRead {
    double epochs = 0;
    std::string dataset;  // its prefix; empty if all rows are from one source
  };
  // Returns the source with the most epochs in the first `samples` samples.
  MostRead most_read(int64_t samples) const;

  // All but one are null.
  const data::TrainingData* datasets() const { return datasets_.get(); }
  const data::InstructionData* instructions() const { return instructions_.get(); }
  const data::PreferenceData* preferences() const { return preferences_.get(); }
  data::PreferenceData* preferences() { return preferences_.get(); }
  // Returns the pair of a sample; there must be preferences.
  int64_t pair_of(int64_t sample) const {
    return preferences_->pair_of(first_row_ + sample - first_sample_);
  }
  // Returns the figures of a pair per row: 0 without preferences.
  int64_t references() const { return preferences_ ? data::kPreferenceFigures : 0; }
  // Returns the counts of instructions or preferences; nothing for datasets.
  std::optional<data::InstructionCounts> counts() const;

 private:
  std::unique_ptr<data::TrainingData> datasets_;
  std::unique_ptr<data::InstructionData> instructions_;
  std::unique_ptr<data::PreferenceData> preferences_;
  int64_t tokens_ = 0, source_ = 0;
  int64_t rows_per_epoch() const;  // there must be no datasets
  // For instructions and preferences: the first sample of the run that is read from these rows, its
  // row, and the remaining position.
  int64_t first_sample_ = 0, first_row_ = 0;
  data::DataPosition start_;
};

// Throws Error if a dataset of data.train, data.stages or data.validation was built with a
// tokenizer whose ids stand for other texts than those of `tokenizer`, unless
// data.allow_foreign_tokenizer is set. The message names the dataset, both tokenizers and what to
// do.
void require_own_datasets(const config::RunConfig& config, const data::Tokenizer& tokenizer);

struct ValidationSpec {
  std::string name;
  data::DatasetSpec spec;  // the one dataset that ValidationData reads
};

// Returns the datasets of data.validation, unsplit. If there are none, returns the second part of
// data.split of each training dataset, if that part is not empty.
std::vector<ValidationSpec> validation_specs(const config::RunConfig& config, int64_t vocabulary);
// Returns the same with the settings of `training`, such as span corruption.
std::vector<ValidationSpec> validation_specs(const config::RunConfig& config,
                                             data::DatasetSpec training);

// One of `data` and `pairs` is null.
struct ValidationSet {
  std::string name;
  std::unique_ptr<data::ValidationData> data;
  std::unique_ptr<data::PreferenceData> pairs;
};

// Opens the validation sets of a run: those of validation_specs(), or with data.instructions each
// file of data.validation, which has pairs of answers if the objective compares them.
std::vector<ValidationSet> validation_sets(const config::RunConfig& config, int64_t vocabulary,
                                           const data::Tokenizer& tokenizer);

// ---- The log lines of a run about its data.

// Returns lines with the amount of data and how often a run of `samples` samples reads it. For
// instructions they also have the counts of examples, rows, padding and skipped examples, also for
// each validation set. Lines that start with "warning" follow for problems of chat data
// (data/chat_notes.h) and if the data is read many times.
std::vector<std::string> data_lines(const TrainingRowReader& rows,
                                    const std::vector<ValidationSet>& validation, int64_t samples);

// Returns the counts of the training data for scripts.
Tree data_counts(const TrainingRowReader& rows, int64_t samples);

// Returns a log line with the validation result of one set.
std::string validation_line(const ValidationMetrics& m);

}  // namespace tessera::train
