#include "data/training_data.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/dataset_about.h"
#include "data/tokenizer.h"

namespace tessera {
namespace {

std::vector<double> weights_of(const DatasetSpec& spec) {
  if (spec.datasets.empty()) {
    throw Error(
        "data.train: names no dataset. Wanted the prefix of one or more that   tessera data "
        "build   made");
  }
  std::vector<double> weights;
  for (const WeightedDataset& d : spec.datasets) {
    if (!(d.weight > 0) || !std::isfinite(d.weight)) {
      throw Error("data.train: {} has weight {}, wanted a number above 0", d.prefix, d.weight);
    }
    weights.push_back(d.weight);
  }
  return weights;
}

// `start` is the token of the file where `ids` stand.
void check_vocabulary(std::span<const int32_t> ids, int64_t vocabulary, const IndexedDataset& data,
                      int64_t start) {
  if (vocabulary <= 0) return;
  const auto bad =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= vocabulary; });
  if (bad == ids.end()) return;
  const int64_t token = start + (bad - ids.begin()), sequence = data.sequence_of(token);
  throw Error(
      "{}: token {} of document {} (byte {}) is {}, beyond the vocabulary of {}. Was the "
      "dataset built with another tokenizer? Build it again, or set model.vocabulary",
      data.data_name(), token - data.first_token(sequence), sequence, token * size_of(data.dtype()),
      *bad < 0 ? std::string("negative or too large for any") : std::to_string(*bad), vocabulary);
}

}  // namespace

TrainingData::TrainingData(DatasetSpec spec) : spec_(std::move(spec)), blend_(weights_of(spec_)) {
  double sum = 0;
  for (const WeightedDataset& d : spec_.datasets) sum += d.weight;
  for (const WeightedDataset& d : spec_.datasets) {
    Dataset one;
    one.data = std::make_unique<IndexedDataset>(d.prefix);
    const SequenceRange range = split_range(spec_.split, spec_.part, one.data->sequences());
    one.order = std::make_unique<SampleOrder>(*one.data, range, spec_.sequence_length, spec_.seed);
    one.share = d.weight / sum;
    datasets_.push_back(std::move(one));
  }
}

void TrainingData::read(int64_t sample, std::span<int32_t> out) {
  const Blend::Pick pick = blend_.at(sample);
  const Dataset& from = datasets_[static_cast<size_t>(pick.source)];
  from.order->read(pick.index, out);
  const bool fits = std::all_of(out.begin(), out.end(), [&](int32_t id) {
    return id >= 0 && (spec_.vocabulary <= 0 || id < spec_.vocabulary);
  });
  if (fits) return;
  for (const Piece& p : from.order->pieces(pick.index)) {
    const auto ids = out.first(static_cast<size_t>(p.count));
    check_vocabulary(ids, spec_.vocabulary, *from.data,
                     from.data->first_token(p.sequence) + p.from);
    out = out.subspan(static_cast<size_t>(p.count));
  }
}

SampleOrigin TrainingData::origin(int64_t sample) {
  const Blend::Pick pick = blend_.at(sample);
  SampleOrder& order = *datasets_[static_cast<size_t>(pick.source)].order;
  return {pick.source, pick.index, pick.index / order.samples_per_epoch(),
          order.pieces(pick.index)};
}

int64_t TrainingData::tokens() const {
  int64_t sum = 0;
  for (const Dataset& d : datasets_) sum += d.order->tokens();
  return sum;
}

double TrainingData::epochs(int64_t samples) const {
  double most = 0;
  for (const Dataset& d : datasets_) {
    most = std::max(most, static_cast<double>(samples) * d.share /
                              static_cast<double>(d.order->samples_per_epoch()));
  }
  return most;
}

ValidationData::ValidationData(DatasetSpec spec) : spec_(std::move(spec)) {
  CHECK(spec_.datasets.size() == 1, "a validation set of {} datasets", spec_.datasets.size());
  CHECK(spec_.sequence_length > 0, "samples of {} tokens", spec_.sequence_length);
  data_ = std::make_unique<IndexedDataset>(spec_.datasets.front().prefix);
  range_ = split_range(spec_.split, spec_.part, data_->sequences());
  first_ = data_->first_token(range_.begin);
  tokens_ = data_->first_token(range_.end) - first_;
  if (tokens_ < 2) {
    throw Error(
        "{}: {} documents with {} tokens are too few to validate on, wanted 2 tokens or more. "
        "Name another dataset in data.validation, or change data.split",
        data_->data_name(), range_.size(), tokens_);
  }
}

int64_t ValidationData::samples() const {
  return (tokens_ - 1 + spec_.sequence_length - 1) / spec_.sequence_length;
}

int64_t ValidationData::read(int64_t sample, std::span<int32_t> out) const {
  CHECK(static_cast<int64_t>(out.size()) == spec_.sequence_length + 1, "a sample in {} tokens",
        out.size());
  if (sample >= samples()) return 0;
  const int64_t from = sample * spec_.sequence_length;
  const int64_t count = std::min<int64_t>(spec_.sequence_length + 1, tokens_ - from);
  const auto ids = out.first(static_cast<size_t>(count));
  data_->read(first_ + from, ids);
  check_vocabulary(ids, spec_.vocabulary, *data_, first_ + from);
  return count;
}

int64_t ValidationData::text_bytes(const Tokenizer& tokenizer) const {
  const auto about = read_about(*data_);
  if (about && about->tokens == tokens_) return about->text_bytes;
  constexpr int64_t kBlock = 4096;
  std::vector<int32_t> ids(kBlock);
  const int32_t end_of_text = tokenizer.end_of_text().value_or(-1);
  int64_t bytes = 0;
  for (int64_t from = 0; from < tokens_; from += kBlock) {
    const int64_t n = std::min(kBlock, tokens_ - from);
    data_->read(first_ + from, std::span(ids).first(static_cast<size_t>(n)));
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = ids[static_cast<size_t>(i)];
      if (id != end_of_text) bytes += static_cast<int64_t>(tokenizer.token_bytes(id).size());
    }
  }
  return bytes;
}

}  // namespace tessera
