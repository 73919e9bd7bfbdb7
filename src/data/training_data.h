// The samples of a run: several datasets blended by weight, each in its own random order; the blend
// may change in stages. Also the samples of a validation set, in the order of its file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/blend_schedule.h"
#include "data/data_position.h"
#include "data/indexed_dataset.h"
#include "data/instructions.h"
#include "data/samples.h"
#include "data/span_corruption.h"

namespace tessera::data {

class Tokenizer;

struct WeightedDataset {
  std::string prefix;
  double weight = 1;
};

// A blend that is used from the first sample that begins at or after a token of the run.
struct MixtureStage {
  int64_t from_tokens = 0;
  std::vector<WeightedDataset> datasets;
};

// The objective of span corruption, instead of next-token prediction.
struct SpanObjective {
  SpanCorruption how;
  SpanTokens ids;
  int64_t sentinels = 0;      // number of sentinels of the tokenizer
  int32_t decoder_start = 0;  // first input of the decoder: T5's padding
};

// Returns the objective with the ids of a tokenizer and the settings of T5. Throws Error if the
// tokenizer has no sentinels or no </s>.
SpanObjective span_objective(const Tokenizer& tokenizer);

// The data of a run, from the section `data` of its run file.
struct DatasetSpec {
  std::vector<WeightedDataset> datasets;
  std::string split = {};       // split of each dataset's sequences, as "969,30,1"; empty: no split
  int part = 0;                 // 0 train, 1 validation, 2 test
  int64_t sequence_length = 0;  // T; with span corruption, the length of the encoder input
  uint64_t seed = 0;
  int64_t vocabulary = 0;  // reading an id >= vocabulary is an error; 0: any id is accepted
  // A dataset's share is weight · (its tokens)^size_exponent. 0: the weight alone; mT5 uses 0.3 for
  // its languages (Xue et al. 2021).
  double size_exponent = 0;
  std::vector<MixtureStage> stages = {};  // stages after `datasets`, in ascending order
  // Positions start at 0 in each document, and no label crosses from one document to the next.
  bool intra_document_masking = false;
  std::optional<SpanObjective> spans = {};
};

// The origin of a sample.
struct SampleOrigin {
  int dataset = 0;    // number of the dataset in TrainingData
  int64_t index = 0;  // number of the sample in the dataset
  int64_t epoch = 0;  // epoch of the dataset
  std::vector<SamplePiece> pieces;
};

// Returns any sample of the run by its global number, the same on every rank. Not thread safe
// except position().
class TrainingData {
 public:
  // Throws Error if a dataset is damaged or too small, if a weight is not above 0, or if span
  // corruption does not fit the length or has too few sentinels.
  explicit TrainingData(DatasetSpec spec);

  // Continues a run at the position `saved`. Call it before anything is read. Each dataset
  // continues at its own position, even if the blend has changed. A dataset is found by its prefix,
  // or by its identity if it was moved. Throws Error if its content has changed, unless `changes`
  // is set. If the content, the length of samples, the seed or the split has changed, the dataset
  // continues with the first epoch that had not begun. A new dataset starts at its first sample.
  void continue_from(const DataPosition& saved, bool changes);
  // Returns the position after the first `samples` samples of the run. `samples` must not decrease
  // from call to call.
  DataPosition position(int64_t samples);
  // Returns the number of the dataset that a sample comes from. Like position(), it may be called
  // while another thread reads samples.
  int source_of(int64_t sample) { return counting_->at(sample).source; }
  // Returns the first sample that can be read; earlier ones came from another blend.
  int64_t first_sample() const { return mixture_->first_sample(); }

  // Row lengths: of the tokens, and of the encoder input (0: no encoder).
  int64_t row_tokens() const { return spec_.spans ? spans_.targets : spec_.sequence_length; }
  int64_t row_source() const { return spec_.spans ? spec_.sequence_length : 0; }

  // Writes the row of a sample.
  // Next-token prediction: the row has sample_tokens() consecutive tokens; documents are numbered.
  // Span corruption: `source` [S] is the corrupted text, padded with token 0; `labels` are the
  // targets, and `tokens` are these shifted by one, after `decoder_start`. The last of the T + 1
  // tokens, with which the next sample begins, is not used.
  // Throws Error with file, document and position of an id outside the vocabulary.
  void read_row(int64_t sample, const SampleRow& row);

  // Reads the tokens of a sample as stored in the dataset: T + 1 of them. T is that of DatasetSpec;
  // with span corruption, it is the length of text that gives inputs of that length. Throws Error
  // as read_row() does.
  int64_t sample_tokens() const { return length_ + 1; }
  void read(int64_t sample, std::span<int32_t> out);
  SampleOrigin origin(int64_t sample);

  const DatasetSpec& spec() const { return spec_; }
  // Datasets are numbered: first those of DatasetSpec::datasets, then those of later stages only.
  int datasets() const { return static_cast<int>(datasets_.size()); }
  const IndexedDataset& dataset(int i) const { return *datasets_[i].data; }
  const std::string& prefix(int i) const { return datasets_[i].prefix; }
  int64_t tokens() const;  // tokens of the selected parts of all datasets
  struct MostRead {
    int dataset;
    double epochs;
  };
  MostRead most_read(int64_t samples) const;  // the one with the most epochs in `samples` samples

 private:
  struct Dataset {
    std::string prefix, identity;
    std::unique_ptr<IndexedDataset> data;
    std::unique_ptr<SampleOrder> order;
  };
  void open(const std::string& prefix);
  BlendSchedule::Stage stage_of(int64_t from_tokens, const std::vector<WeightedDataset>& blend);
  std::vector<BlendSchedule::Stage> stages_after(int64_t samples, int64_t tokens);
  void make_mixture(const DataPosition& saved, bool changes);
  SampleOrderKey order_key() const;
  void read(const Blend::Pick& pick, std::span<int32_t> out);
  void mark_documents(const Blend::Pick& pick, const SampleRow& row);

  DatasetSpec spec_;
  SpanLengths spans_;   // used with span corruption
  int64_t length_ = 0;  // tokens per sample, without the additional label
  std::vector<Dataset> datasets_;
  std::unique_ptr<BlendSchedule> mixture_;
  std::unique_ptr<BlendSchedule> counting_;       // a copy for position(), called by another thread
  int64_t first_samples_ = 0, first_tokens_ = 0;  // consumed before continue_from()
  std::vector<SourcePosition> left_;              // positions of datasets that are no longer read
  std::vector<int32_t> ids_;                      // tokens of the sample that is being read
};

// Sample i has tokens [i·T, i·T + T] of the file, T + 1 of them, or fewer at the end: each token
// but the first is predicted once. With span corruption, sample i is made of tokens [i·T, i·T + T),
// and a remainder at the end is not used; its spans are the same in every run and step. With
// instruction data, sample i is the i-th packed row.
class ValidationData {
 public:
  // `spec` has one dataset; its seed and weight are not used. Throws Error as TrainingData
  // does, but two tokens are enough.
  explicit ValidationData(DatasetSpec spec);
  // Throws Error as InstructionData does.
  ValidationData(const InstructionSpec& spec, const Tokenizer& tokenizer);

  // Row lengths as in TrainingData.
  int64_t row_tokens() const { return row_tokens_; }
  int64_t row_source() const { return row_source_; }
  bool intra_document_masking() const { return spec_.intra_document_masking; }
  int64_t samples() const;
  int64_t predicted_tokens() const;  // predicted tokens of all samples
  // Writes a row as TrainingData::read_row does; from samples() on, padding without labels.
  void read_row(int64_t sample, const SampleRow& row) const;
  // Writes the tokens of a sample to the front of `out` [T + 1] and returns their number; 0 from
  // samples() on.
  int64_t read(int64_t sample, std::span<int32_t> out) const;

  // Returns the bytes of text that the tokens represent, the denominator of bits per byte: from
  // PREFIX.json if it describes exactly these tokens, otherwise by decoding them. End-of-text
  // tokens represent no bytes. For instruction data: the bytes of the responses. Throws Error with
  // the position of an id that the tokenizer does not have.
  int64_t text_bytes(const Tokenizer& tokenizer) const;
  const InstructionData* instructions() const { return instructions_.get(); }  // nullptr: a dataset

 private:
  void mark_documents(int64_t sample, const SampleRow& row) const;

  DatasetSpec spec_;
  SpanLengths spans_;   // used with span corruption
  int64_t length_ = 0;  // distance in tokens between the starts of consecutive samples
  int64_t row_tokens_ = 0, row_source_ = 0;
  std::unique_ptr<IndexedDataset> data_;  // one of these two is set
  std::unique_ptr<InstructionData> instructions_;
  SequenceRange range_;
  int64_t first_ = 0, tokens_ = 0;
};

// Fills a micro-batch of a validation set: row i is sample first + i if that is below `samples` and
// below data.samples(). All other rows and positions have token 0 and kIgnoredLabel.
void fill_validation_batch(const ValidationData& data, int64_t first, int64_t samples,
                           const BatchView& out);

}  // namespace tessera::data
