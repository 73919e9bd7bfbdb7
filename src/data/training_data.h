// The samples of a run: several datasets blended by weight, each in an order of its own; and the
// samples of a validation set, in the order of its file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/indexed_dataset.h"
#include "data/samples.h"

namespace tessera {

class Tokenizer;

struct WeightedDataset {
  std::string prefix;
  double weight = 1;
};

// What a run reads. A run file's `data` maps to it.
struct DatasetSpec {
  std::vector<WeightedDataset> datasets;
  std::string split;  // as "969,30,1", of each dataset by its sequences; empty: all of them
  int part = 0;       // 0 train, 1 validation, 2 test
  int64_t sequence_length = 0;  // T
  uint64_t seed = 0;
  int64_t vocabulary = 0;  // ids at or beyond it are refused where they are read; 0: any
};

// Where one sample comes from.
struct SampleOrigin {
  int dataset = 0;    // of DatasetSpec::datasets
  int64_t index = 0;  // the how many-th sample of that dataset
  int64_t epoch = 0;  // of that dataset
  std::vector<Piece> pieces;
};

// Any sample of the run by its global number, which is all that a restart needs to go on. Reads the
// same on every rank. Not for several threads at once.
class TrainingData {
 public:
  // Throws Error for a dataset that is damaged or too small, and for weights that are not above 0.
  explicit TrainingData(DatasetSpec spec);

  // T + 1 tokens. Throws Error that names file, document and place of an id beyond the vocabulary.
  void read(int64_t sample, std::span<int32_t> out);
  SampleOrigin origin(int64_t sample);

  const DatasetSpec& spec() const { return spec_; }
  const IndexedDataset& dataset(int i) const { return *datasets_[static_cast<size_t>(i)].data; }
  int64_t tokens() const;  // of all datasets, of their parts
  // How often the largest-used dataset is read through in that many samples: "0.7 of an epoch".
  double epochs(int64_t samples) const;

 private:
  struct Dataset {
    std::unique_ptr<IndexedDataset> data;
    std::unique_ptr<SampleOrder> order;
    double share = 0;  // of all samples
  };
  DatasetSpec spec_;
  std::vector<Dataset> datasets_;
  Blend blend_;
};

// Sample i holds tokens [i·T, i·T + T] of the file, T + 1 or, at the end, fewer: each token but the
// first is predicted once.
class ValidationData {
 public:
  // `spec` names one dataset; seed and weight are not used. Throws Error as TrainingData does; one
  // sample of two tokens is enough.
  explicit ValidationData(DatasetSpec spec);

  int64_t samples() const;
  int64_t predicted_tokens() const { return tokens_ - 1; }
  // Fills the front of `out` [T + 1] and returns how many tokens that are; 0 beyond samples().
  int64_t read(int64_t sample, std::span<int32_t> out) const;

  // Bytes of text that the tokens stand for, which bits per byte divide by: from PREFIX.json if it
  // describes just these tokens, else by decoding them. End-of-text tokens stand for none.
  int64_t text_bytes(const Tokenizer& tokenizer) const;

  const IndexedDataset& dataset() const { return *data_; }

 private:
  DatasetSpec spec_;
  std::unique_ptr<IndexedDataset> data_;
  SequenceRange range_;
  int64_t first_ = 0, tokens_ = 0;
};

}  // namespace tessera
