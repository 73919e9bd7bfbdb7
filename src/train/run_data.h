// What a run file's `data` means: which samples are trained on, and which sets are validated on.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/data_position.h"
#include "data/instructions.h"
#include "data/training_data.h"
#include "train/metrics.h"

namespace tessera::train {

// `vocabulary`: of the tokenizer; data with other ids is refused where it is read.
data::DatasetSpec training_spec(const config::RunConfig& config, int64_t vocabulary);

// With data.objective: what span corruption needs of the tokenizer. Throws Error for one without
// sentinels or end-of-text token.
data::DatasetSpec training_spec(const config::RunConfig& config, int64_t vocabulary,
                                const data::Tokenizer& tokenizer);

data::InstructionSpec instruction_spec(const config::RunConfig& config);

// The rows that a run trains on, whatever `data` says. Not for several threads at once, except
// position().
class TrainingRows {
 public:
  // Throws Error as TrainingData and InstructionData do, and with an encoder as require_padding().
  TrainingRows(const config::RunConfig& config, int64_t vocabulary,
               const data::Tokenizer& tokenizer);

  // As those of TrainingData; all instruction files together are one source.
  void continue_from(const data::DataPosition& saved, bool changes);
  data::DataPosition position(int64_t samples);
  int64_t sources() const { return datasets_ ? datasets_->datasets() : 1; }

  void read_row(int64_t sample, const data::SampleRow& row);
  int64_t row_tokens() const { return tokens_; }  // T of a row
  int64_t row_source() const { return source_; }  // S; 0: no encoder
  int64_t tokens() const;                         // of all data
  double epochs(int64_t samples) const;

  const data::TrainingData* datasets() const { return datasets_.get(); }             // either this
  const data::InstructionData* instructions() const { return instructions_.get(); }  // or that

 private:
  std::unique_ptr<data::TrainingData> datasets_;
  std::unique_ptr<data::InstructionData> instructions_;
  int64_t tokens_ = 0, source_ = 0;
  // For instructions: the run's first sample that these rows give, its row, and the rest of the
  // position.
  int64_t first_sample_ = 0, first_row_ = 0;
  data::DataPosition start_;
};

// Throws Error, unless data.allow_foreign_tokenizer, if a set of data.train, data.stages or
// data.validation was built with a tokenizer whose ids stand for other texts than those of
// `tokenizer`: names the set, both tokenizers and what to do.
void require_own_datasets(const config::RunConfig& config, const data::Tokenizer& tokenizer);

struct ValidationSpec {
  std::string name;
  data::DatasetSpec spec;  // the one dataset that ValidationData reads
};

// The sets of data.validation, each as a whole; if there are none, the second part of data.split
// of each training set; if that is empty too, none.
std::vector<ValidationSpec> validation_specs(const config::RunConfig& config, int64_t vocabulary);
// Of what training reads: with span corruption, where it has any.
std::vector<ValidationSpec> validation_specs(const config::RunConfig& config,
                                             data::DatasetSpec training);

struct ValidationSet {
  std::string name;
  std::unique_ptr<data::ValidationData> data;
};

// What a run is validated on: those, or beside data.instructions each file of data.validation, read
// as they are.
std::vector<ValidationSet> validation_sets(const config::RunConfig& config, int64_t vocabulary,
                                           const data::Tokenizer& tokenizer);

// ---- The log lines of a run about its data.

// Returns the amount of data and how often a run of `samples` samples reads it; of instructions the
// counts of examples, rows, padding and skipped examples, for each validation set too. A line that
// starts with "warning" follows where the data is read many times.
std::vector<std::string> data_lines(const TrainingRows& rows,
                                    const std::vector<ValidationSet>& validation, int64_t samples);

// Returns the same counts for scripts.
Tree data_counts(const TrainingRows& rows, int64_t samples);

// Returns the result of validating one set as a line of the log.
std::string validation_line(const ValidationMetrics& m);

}  // namespace tessera::train
