// The samples of a run: several datasets blended by weight, each in an order of its own, the blend
// changing on the way if wanted; and the samples of a validation set, in the order of its file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/data_position.h"
#include "data/indexed_dataset.h"
#include "data/instructions.h"
#include "data/mixture.h"
#include "data/samples.h"
#include "data/span_corruption.h"

namespace tessera::data {

class Tokenizer;

struct WeightedDataset {
  std::string prefix;
  double weight = 1;
};

// From the first sample that begins at or behind that token of the run on, another blend.
struct MixtureStage {
  int64_t from_tokens = 0;
  std::vector<WeightedDataset> datasets;
};

// Samples of span corruption instead of next tokens.
struct SpanObjective {
  SpanCorruption how;
  SpanTokens ids;
  int64_t sentinels = 0;      // that the tokenizer has
  int32_t decoder_start = 0;  // what the decoder reads first: T5's padding
};

// With that tokenizer's ids and T5's own shares. Throws Error for one without sentinels or </s>.
SpanObjective span_objective(const Tokenizer& tokenizer);

// What a run reads. A run file's `data` maps to it.
struct DatasetSpec {
  std::vector<WeightedDataset> datasets;
  std::string split = {};  // as "969,30,1", of each dataset by its sequences; empty: all of them
  int part = 0;            // 0 train, 1 validation, 2 test
  int64_t sequence_length = 0;  // T; with span corruption the encoder's inputs
  uint64_t seed = 0;
  int64_t vocabulary = 0;  // ids at or beyond it are refused where they are read; 0: any
  // Samples are drawn by weight · (tokens of the dataset)^size_exponent: 0: by weight alone; mT5's
  // languages have 0.3 (Xue et al. 2021).
  double size_exponent = 0;
  std::vector<MixtureStage> stages = {};  // behind `datasets`, which is the first; ascending
  // Positions begin anew in each document, and no label crosses from one to the next.
  bool intra_document_masking = false;
  std::optional<SpanObjective> spans = {};
};

// Where one sample comes from.
struct SampleOrigin {
  int dataset = 0;    // as TrainingData numbers them
  int64_t index = 0;  // the how many-th sample of that dataset
  int64_t epoch = 0;  // of that dataset
  std::vector<SamplePiece> pieces;
};

// Any sample of the run by its global number. Reads the same on every rank. Not for several threads
// at once, except position().
class TrainingData {
 public:
  // Throws Error for a dataset that is damaged or too small, for weights that are not above 0, and
  // for span corruption that has no room or too few sentinels.
  explicit TrainingData(DatasetSpec spec);

  // Continues a run at the position `saved`. Call it before anything is read. Each data set
  // continues at its own place, even if the blend has changed. A data set is found by its prefix,
  // or by its identity if it was moved. Throws Error if its content has changed, unless `changes`
  // is set. If the content, the length of samples, the seed or the split has changed, it continues
  // with the first epoch that was not begun. A new data set starts at its first sample.
  void continue_from(const DataPosition& saved, bool changes);
  // Returns the position after the first `samples` samples of the run. `samples` must not decrease
  // from call to call.
  DataPosition position(int64_t samples);
  // The first sample that can be read: those before were read from another blend.
  int64_t first_sample() const { return mixture_->first_sample(); }

  // Row lengths: tokens and, of an encoder, its source (0: none).
  int64_t row_tokens() const { return spec_.spans ? spans_.targets : spec_.sequence_length; }
  int64_t row_source() const { return spec_.spans ? spec_.sequence_length : 0; }

  // Next tokens: the row of sample_tokens() tokens; documents are numbered.
  // Span corruption: source [S] has the corrupted text, then token 0 up to S; labels the targets,
  // and tokens these shifted by one behind `decoder_start`. Of the T + 1 tokens all but the last,
  // with which the next sample begins, are used.
  // Throws Error that names file, document and place of an id beyond the vocabulary.
  void read_row(int64_t sample, const SampleRow& row);

  // The tokens that a sample is made of, as they stand in the dataset: T + 1, with T as in
  // DatasetSpec, or with span corruption what becomes inputs of that length. Throws as read_row.
  int64_t sample_tokens() const { return length_ + 1; }
  void read(int64_t sample, std::span<int32_t> out);
  SampleOrigin origin(int64_t sample);

  const DatasetSpec& spec() const { return spec_; }
  // Those of DatasetSpec::datasets come first, then those that only later stages have.
  int datasets() const { return static_cast<int>(datasets_.size()); }
  const IndexedDataset& dataset(int i) const { return *datasets_[i].data; }
  const std::string& prefix(int i) const { return datasets_[i].prefix; }
  int64_t tokens() const;  // of all datasets, of their parts
  // How often the largest-used dataset is read through in that many samples: "0.7 of an epoch".
  double epochs(int64_t samples) const;

 private:
  struct Dataset {
    std::string prefix, identity;
    std::unique_ptr<IndexedDataset> data;
    std::unique_ptr<SampleOrder> order;
  };
  void open(const std::string& prefix);
  Mixture::Stage stage_of(int64_t from_tokens, const std::vector<WeightedDataset>& blend);
  std::vector<Mixture::Stage> stages_after(int64_t samples, int64_t tokens);
  void make_mixture(const DataPosition& saved, bool changes);
  SampleOrderKey order_key() const;
  void read(const Blend::Pick& pick, std::span<int32_t> out);
  void mark_documents(const Blend::Pick& pick, const SampleRow& row);

  DatasetSpec spec_;
  SpanLengths spans_;   // with span corruption
  int64_t length_ = 0;  // tokens of a sample, without the one more
  std::vector<Dataset> datasets_;
  std::unique_ptr<Mixture> mixture_;
  std::unique_ptr<Mixture> counting_;             // the same, for position(): another thread reads
  int64_t first_samples_ = 0, first_tokens_ = 0;  // consumed before continue_from()
  std::vector<SourcePosition> left_;              // of data sets that are no longer read
  std::vector<int32_t> ids_;                      // of the sample that is read
};

// Sample i holds tokens [i·T, i·T + T] of the file, T + 1 or, at the end, fewer: each token but the
// first is predicted once. With span corruption sample i is made of the i-th T tokens; what is left
// at the end is not used. Its spans are the same in every run and step. Of instructions sample i is
// their i-th packed row.
class ValidationData {
 public:
  // `spec` names one dataset; seed and weight are not used. Throws Error as TrainingData does; one
  // sample of two tokens is enough.
  explicit ValidationData(DatasetSpec spec);
  // Throws Error as InstructionData does.
  ValidationData(const InstructionSpec& spec, const Tokenizer& tokenizer);

  // Row lengths, as those of TrainingData.
  int64_t row_tokens() const { return row_tokens_; }
  int64_t row_source() const { return row_source_; }
  bool intra_document_masking() const { return spec_.intra_document_masking; }
  int64_t samples() const;
  int64_t predicted_tokens() const;  // of all samples
  // As TrainingData::read_row; beyond samples() padding without labels.
  void read_row(int64_t sample, const SampleRow& row) const;
  // Fills the front of `out` [T + 1] and returns how many tokens that are; 0 beyond samples().
  int64_t read(int64_t sample, std::span<int32_t> out) const;

  // Bytes of text that the tokens stand for, which bits per byte divide by: from PREFIX.json if it
  // describes just these tokens, else by decoding them. End-of-text tokens stand for none. Of
  // instructions: the responses. Throws Error that names the place of an id that the tokenizer does
  // not have.
  int64_t text_bytes(const Tokenizer& tokenizer) const;
  const InstructionData* instructions() const { return instructions_.get(); }  // nullptr: text

 private:
  void mark_documents(int64_t sample, const SampleRow& row) const;

  DatasetSpec spec_;
  SpanLengths spans_;   // with span corruption
  int64_t length_ = 0;  // tokens from a sample to the next
  int64_t row_tokens_ = 0, row_source_ = 0;
  std::unique_ptr<IndexedDataset> data_;           // this
  std::unique_ptr<InstructionData> instructions_;  // or that
  SequenceRange range_;
  int64_t first_ = 0, tokens_ = 0;
};

// Fills a micro-batch of a validation set: rows are samples first … first + B − 1 of the set, those
// below `samples` (and the set's end); all other rows and places hold token 0 and kIgnoredLabel.
void fill_validation_batch(const ValidationData& data, int64_t first, int64_t samples,
                           const BatchView& out);

}  // namespace tessera::data
