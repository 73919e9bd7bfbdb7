// Maps the run's samples to rows: a mixture of blends chooses the dataset and its sample, the
// dataset's order finds the tokens, and the objective (next token, or span corruption) fills the
// row.
//
// A stored position has the position in every dataset instead of only the number of samples, so
// that a run can continue after its blend, its data or its sequence length has changed without
// reading any sample twice within an epoch.
#include "data/training_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "data/dataset_about.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace tessera::data {
namespace {

// Writes the row of a sample as the encoder's inputs and the decoder's targets.
void corrupt(const DatasetSpec& spec, const SpanLengths& spans, int64_t sample,
             std::span<const int32_t> ids, const SampleRow& row) {
  const auto inputs = row.source.first(spans.inputs);
  corrupt_spans(spans, spec.spans->ids, spec.seed, sample, ids.first(spans.tokens), inputs,
                row.labels);
  std::fill(row.source.begin() + std::ssize(inputs), row.source.end(), 0);
  // The decoder reads its targets shifted by one (teacher forcing).
  row.tokens[0] = spec.spans->decoder_start;
  std::copy(row.labels.begin(), row.labels.end() - 1, row.tokens.begin() + 1);
  std::iota(row.positions.begin(), row.positions.end(), 0);
  std::fill(row.documents.begin(), row.documents.end(), 0);
}

// Returns the number of samples of `length` tokens that begin before token `tokens`.
int64_t samples_of(int64_t tokens, int64_t length) {
  return tokens / length + (tokens % length > 0 ? 1 : 0);
}

// Numbers the documents of a row; next() is called with their token counts, in order.
class DocumentMarks {
 public:
  DocumentMarks(const SampleRow& row, bool apart) : row_(row), apart_(apart) {}

  void next(int64_t tokens) {
    const size_t end = std::min<size_t>(at_ + tokens, row_.documents.size());
    for (size_t t = at_; t < end; ++t) {
      row_.documents[t] = document_;
    }
    if (apart_) std::iota(row_.positions.begin() + at_, row_.positions.begin() + end, 0);
    // The label of a document's last token would be the first token of the next document, which is
    // not predictable.
    const bool crosses = at_ + tokens <= row_.documents.size();
    if (apart_ && crosses && end > 0) row_.labels[end - 1] = kIgnoredLabel;
    at_ = end;
    ++document_;
  }

 private:
  const SampleRow& row_;
  bool apart_;
  size_t at_ = 0;
  int32_t document_ = 0;
};

// Returns the span lengths of a spec's samples; empty without span corruption.
SpanLengths spans_of(const DatasetSpec& spec) {
  if (!spec.spans) return {};
  const SpanLengths spans = fit_spans(spec.sequence_length, spec.spans->how);
  require_sentinels(spans, spec.spans->sentinels);
  return spans;
}

}  // namespace

SpanObjective span_objective(const Tokenizer& tokenizer) {
  if (!tokenizer.end_of_text() || tokenizer.sentinels() == 0) {
    throw Error(
        "span corruption needs a tokenizer with </s> and sentinels; this one has {}. Use a T5 "
        "model, or train one: tessera tokenizer train --kind unigram --sentinels 100",
        tokenizer.end_of_text() ? "no sentinels" : "no </s>");
  }
  SpanObjective spans;
  spans.ids = {tokenizer.vocabulary_size() - 1, *tokenizer.end_of_text()};
  spans.sentinels = tokenizer.sentinels();
  return spans;
}

TrainingData::TrainingData(DatasetSpec spec)
    : spec_(std::move(spec)),
      spans_(spans_of(spec_)),
      length_(spec_.spans ? spans_.tokens : spec_.sequence_length) {
  if (spec_.datasets.empty()) {
    throw Error(
        "data.train: is empty, expected the prefixes of one or more datasets written by   tessera "
        "data build");
  }
  ids_.resize(length_ + 1);
  // The datasets of the first stage come first, in their order. Later stages add new ones.
  for (const WeightedDataset& d : spec_.datasets) open(d.prefix);
  for (const MixtureStage& stage : spec_.stages) {
    for (const WeightedDataset& d : stage.datasets) {
      const auto known = std::find_if(datasets_.begin(), datasets_.end(),
                                      [&](const Dataset& o) { return o.prefix == d.prefix; });
      if (known == datasets_.end()) open(d.prefix);
    }
  }
  make_mixture({}, false);
}

void TrainingData::open(const std::string& prefix) {
  Dataset one;
  one.prefix = prefix;
  one.data = std::make_unique<IndexedDataset>(prefix);
  one.identity = one.data->identity();
  const SequenceRange range = split_range(spec_.split, spec_.part, one.data->sequences());
  one.order = std::make_unique<SampleOrder>(*one.data, range, length_, spec_.seed);
  datasets_.push_back(std::move(one));
}

BlendSchedule::Stage TrainingData::stage_of(int64_t from_tokens,
                                            const std::vector<WeightedDataset>& blend) {
  BlendSchedule::Stage stage;
  stage.first_sample = samples_of(from_tokens, length_);
  for (size_t i = 0; i < blend.size(); ++i) {
    const WeightedDataset& d = blend[i];
    if (!(d.weight > 0) || !std::isfinite(d.weight)) {
      throw Error("data.train: {} has weight {}, expected a number above 0", d.prefix, d.weight);
    }
    const auto known = std::find_if(datasets_.begin(), datasets_.end(),
                                    [&](const Dataset& o) { return o.prefix == d.prefix; });
    // A dataset of the first stage is numbered by its position in the list, even if a prefix is
    // listed twice.
    const auto source =
        from_tokens == 0 ? static_cast<int>(i) : static_cast<int>(known - datasets_.begin());
    if (std::find(stage.sources.begin(), stage.sources.end(), source) != stage.sources.end()) {
      throw Error(
          "data.stages: duplicate dataset {} in the stage from token {}. Remove one of them.",
          d.prefix, from_tokens);
    }
    const auto size = static_cast<double>(datasets_[source].order->tokens());
    // A share is weight * tokens^exponent (Xue et al. 2021, with an exponent of 0.3 for mT5).
    const double weight = d.weight * std::pow(size, spec_.size_exponent);
    if (!(weight > 0) || !std::isfinite(weight)) {
      throw Error(
          "data.train: {} has weight {} and {} tokens, which give a share of {} with "
          "data.size_exponent = {}, expected a finite number above 0. Use weights closer to 1",
          d.prefix, d.weight, size, weight, spec_.size_exponent);
    }
    stage.sources.push_back(source);
    stage.weights.push_back(weight);
  }
  return stage;
}

// Returns the stage of the run's next sample and the stages after it. Their first samples are
// counted from the consumed samples and tokens, because earlier samples may have had another
// length.
std::vector<BlendSchedule::Stage> TrainingData::stages_after(int64_t samples, int64_t tokens) {
  std::vector<BlendSchedule::Stage> stages;
  int64_t before = -1;
  const auto add = [&](int64_t from, const std::vector<WeightedDataset>& datasets) {
    BlendSchedule::Stage stage = stage_of(from, datasets);
    if (stage.first_sample <= before) {
      throw Error(
          "data.stages: the stage from token {} does not begin after the previous one, expected "
          "ascending numbers of tokens, the first above 0",
          from);
    }
    before = stage.first_sample;
    stage.first_sample = samples + samples_of(std::max<int64_t>(from - tokens, 0), length_);
    // A stage that ends before the next sample is replaced by the one in effect.
    while (!stages.empty() && stages.back().first_sample >= stage.first_sample) stages.pop_back();
    stages.push_back(std::move(stage));
  };
  add(0, spec_.datasets);
  for (const MixtureStage& stage : spec_.stages) {
    if (stage.datasets.empty()) {
      throw Error("data.stages: the stage from token {} has no dataset, expected one or more",
                  stage.from_tokens);
    }
    add(stage.from_tokens, stage.datasets);
  }
  return stages;
}

SampleOrderKey TrainingData::order_key() const { return {length_, spec_.seed, spec_.split}; }

void TrainingData::continue_from(const DataPosition& saved, bool changes) {
  make_mixture(saved, changes);
}

void TrainingData::make_mixture(const DataPosition& saved, bool changes) {
  std::vector<std::string> names;
  for (const Dataset& d : datasets_) names.push_back(d.prefix);
  std::vector<BlendSchedule::Stage> stages = stages_after(saved.samples, saved.tokens);
  BlendSchedule::Start start{saved.samples, {}, {}};
  std::vector<double> weights;  // weights of the saved blend
  bool same = true;
  left_ = saved.sources;
  for (SourcePosition& s : left_) s.weight = 0;
  for (const Dataset& d : datasets_) {
    const SourcePosition* s = find_source(saved, d.prefix, d.identity, names);
    if (s && !changes) require_same_source(*s, d.identity);
    // A dataset continues at its saved position if its content and its order are unchanged,
    // otherwise at the first epoch that had not begun.
    const bool known = s && (s->identity.empty() || s->identity == d.identity);
    const bool goes_on = known && saved.order == order_key();
    start.before.push_back(goes_on ? s->before : 0);
    start.given.push_back(s ? continued_sample(*s, goes_on, d.order->samples_per_epoch()) : 0);
    weights.push_back(s ? s->weight : 0);
    same = same && (goes_on || !s);
    // Datasets that the run no longer reads remain in left_. Their positions are kept, so that they
    // can be used again later.
    if (s) std::erase_if(left_, [&](const SourcePosition& l) { return l.name == s->name; });
  }
  BlendSchedule::Stage& first = stages.front();
  const bool known_blend = !saved.sources.empty();
  std::vector<double> today(datasets_.size(), 0);
  for (size_t i = 0; i < first.sources.size(); ++i) today[first.sources[i]] = first.weights[i];
  // The blend itself continues only if its data, order and weights are unchanged and none of its
  // datasets was removed. Otherwise a new blend begins at this sample, from the current positions.
  const auto was_read = [](const SourcePosition& l) { return l.samples > l.before; };
  if (known_blend && same && today == weights && std::none_of(left_.begin(), left_.end(), was_read))
    first.first_sample = saved.blend_sample;
  else
    start.before = start.given;
  for (SourcePosition& l : left_) l.before = l.samples;
  first_samples_ = saved.samples;
  first_tokens_ = saved.tokens;
  mixture_ = std::make_unique<BlendSchedule>(std::move(stages), datasets(), start);
  // A copy, because the thread that reads ahead uses mixture_ while the main thread calls
  // position().
  counting_ = std::make_unique<BlendSchedule>(*mixture_);
}

DataPosition TrainingData::position(int64_t samples) {
  const BlendSchedule::Counts counts = counting_->counts(samples);
  DataPosition p;
  p.samples = samples;
  p.tokens = first_tokens_ + (samples - first_samples_) * length_;
  p.blend_sample = counts.stage->first_sample;
  p.order = order_key();
  for (size_t i = 0; i < datasets_.size(); ++i)
    p.sources.push_back({datasets_[i].prefix, datasets_[i].identity, counts.given[i],
                         counts.before[i], datasets_[i].order->samples_per_epoch(), 0});
  for (size_t i = 0; i < counts.stage->sources.size(); ++i)
    p.sources[counts.stage->sources[i]].weight = counts.stage->weights[i];
  p.sources.insert(p.sources.end(), left_.begin(), left_.end());
  return p;
}

void TrainingData::read(int64_t sample, std::span<int32_t> out) { read(mixture_->at(sample), out); }

void TrainingData::read(const Blend::Pick& pick, std::span<int32_t> out) {
  const Dataset& from = datasets_[pick.source];
  from.order->read(pick.index, out);
  const bool fits = std::all_of(out.begin(), out.end(), [&](int32_t id) {
    return id >= 0 && (spec_.vocabulary <= 0 || id < spec_.vocabulary);
  });
  // The slow path finds the first invalid id, and throws Error with its file, document and
  // position.
  if (fits) return;
  for (const SamplePiece& p : from.order->pieces(pick.index)) {
    const auto ids = out.first(p.count);
    require_vocabulary(ids, spec_.vocabulary, *from.data,
                       from.data->first_token(p.sequence) + p.from);
    out = out.subspan(p.count);
  }
}

void TrainingData::read_row(int64_t sample, const SampleRow& row) {
  CHECK(std::ssize(row.tokens) == row_tokens() && std::ssize(row.source) == row_source(),
        "a row of {} + {} tokens", row.tokens.size(), row.source.size());
  // The choice is requested only once: a second request for the same sample would be a step back,
  // which replays up to 4,096 choices.
  const Blend::Pick pick = mixture_->at(sample);
  read(pick, ids_);
  if (spec_.spans) return corrupt(spec_, spans_, sample, ids_, row);
  fill_row(ids_, row);
  mark_documents(pick, row);
}

void TrainingData::mark_documents(const Blend::Pick& pick, const SampleRow& row) {
  DocumentMarks marks(row, spec_.intra_document_masking);
  for (const SamplePiece& p : datasets_[pick.source].order->pieces(pick.index)) marks.next(p.count);
}

SampleOrigin TrainingData::origin(int64_t sample) {
  const Blend::Pick pick = mixture_->at(sample);
  SampleOrder& order = *datasets_[pick.source].order;
  return {pick.source, pick.index, pick.index / order.samples_per_epoch(),
          order.pieces(pick.index)};
}

int64_t TrainingData::tokens() const {
  int64_t sum = 0;
  for (const Dataset& d : datasets_) sum += d.order->tokens();
  return sum;
}

TrainingData::MostRead TrainingData::most_read(int64_t samples) const {
  MostRead most{0, 0};
  for (int i = 0; i < datasets(); ++i) {
    const auto epoch = static_cast<double>(datasets_[i].order->samples_per_epoch());
    const double epochs = mixture_->expected(i, samples) / epoch;
    if (epochs > most.epochs) most = {i, epochs};
  }
  return most;
}

ValidationData::ValidationData(DatasetSpec spec)
    : spec_(std::move(spec)),
      spans_(spans_of(spec_)),
      length_(spec_.spans ? spans_.tokens : spec_.sequence_length),
      row_tokens_(spec_.spans ? spans_.targets : spec_.sequence_length),
      row_source_(spec_.spans ? spec_.sequence_length : 0) {
  CHECK(spec_.datasets.size() == 1, "a validation set of {} datasets", spec_.datasets.size());
  CHECK(spec_.sequence_length > 0, "samples of {} tokens", spec_.sequence_length);
  data_ = std::make_unique<IndexedDataset>(spec_.datasets.front().prefix);
  range_ = split_range(spec_.split, spec_.part, data_->sequences());
  first_ = data_->first_token(range_.begin);
  tokens_ = data_->first_token(range_.end) - first_;
  if (tokens_ < 2) {
    const std::string why =
        spec_.split.empty()
            ? "Use another dataset in data.validation."
            : fmt::format(
                  "data.split = {} divides by documents, and this dataset has {}: a plain text "
                  "file is one document. Build it with `tessera data build --split paragraphs` (or "
                  "lines), set a dataset in data.validation, or remove data.split.",
                  spec_.split, data_->sequences());
    throw Error(
        "{}: {} documents with {} tokens are too few for validation, expected 2 tokens or more. {}",
        data_->data_name(), range_.size(), tokens_, why);
  }
}

ValidationData::ValidationData(const InstructionSpec& spec, const Tokenizer& tokenizer)
    : row_tokens_(spec.target_length > 0 ? spec.target_length : spec.sequence_length),
      row_source_(spec.target_length > 0 ? spec.sequence_length : 0),
      instructions_(std::make_unique<InstructionData>(spec, tokenizer)) {
  // The rows of an encoder have one example each.
  spec_.intra_document_masking = spec.intra_document_masking && spec.target_length == 0;
}

int64_t ValidationData::samples() const {
  if (instructions_) return instructions_->rows();
  // Ceiling of (tokens - 1) / length: every token but the first is predicted once.
  return spec_.spans ? tokens_ / length_ : (tokens_ - 1 + length_ - 1) / length_;
}

int64_t ValidationData::predicted_tokens() const {
  if (instructions_) return instructions_->response_tokens();
  return spec_.spans ? samples() * spans_.targets : tokens_ - 1;
}

int64_t ValidationData::read(int64_t sample, std::span<int32_t> out) const {
  CHECK(std::ssize(out) == length_ + 1, "a sample in {} tokens", out.size());
  if (sample >= samples()) return 0;
  const int64_t from = sample * length_;
  const int64_t count = std::min<int64_t>(length_ + 1, tokens_ - from);
  const auto ids = out.first(count);
  data_->read(first_ + from, ids);
  data_->require_unchanged();
  require_vocabulary(ids, spec_.vocabulary, *data_, first_ + from);
  return count;
}

void ValidationData::read_row(int64_t sample, const SampleRow& row) const {
  if (instructions_ && sample < samples()) return instructions_->read_packed_row(sample, row);
  if (instructions_) {
    std::fill(row.source.begin(), row.source.end(), 0);
    return clear_row(0, row);
  }
  std::vector<int32_t> ids(length_ + 1);
  const int64_t count = read(sample, ids);
  if (count == 0) std::fill(row.source.begin(), row.source.end(), 0);
  if (count > 0 && spec_.spans) return corrupt(spec_, spans_, sample, ids, row);
  fill_row(std::span(ids).first(count), row);
  if (count > 0) mark_documents(sample, row);
}

void ValidationData::mark_documents(int64_t sample, const SampleRow& row) const {
  const int64_t from = first_ + sample * length_;
  const int64_t end = std::min(from + length_ + 1, first_ + tokens_);
  DocumentMarks marks(row, spec_.intra_document_masking);
  for (int64_t at = from; at < end;) {
    const int64_t next = std::min(data_->first_token(data_->sequence_of(at) + 1), end);
    marks.next(next - at);
    at = next;
  }
}

int64_t ValidationData::text_bytes(const Tokenizer& tokenizer) const {
  if (instructions_) return instructions_->response_bytes(tokenizer);
  const auto about = read_about(*data_);
  // The description covers the whole dataset, so it applies only if all of it is used.
  if (about && about->tokens == tokens_) return about->text_bytes;
  constexpr int64_t kBlock = 4096;
  std::vector<int32_t> ids(kBlock);
  const int32_t end_of_text = tokenizer.end_of_text().value_or(-1);
  int64_t bytes = 0;
  for (int64_t from = 0; from < tokens_; from += kBlock) {
    const int64_t n = std::min(kBlock, tokens_ - from);
    const auto block = std::span(ids).first(n);
    data_->read(first_ + from, block);
    require_vocabulary(block, tokenizer.vocabulary_size(), *data_, first_ + from);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = ids[i];
      if (id != end_of_text) bytes += tokenizer.token_bytes(id).size();
    }
  }
  return bytes;
}

void fill_validation_batch(const ValidationData& data, int64_t first, int64_t samples,
                           const BatchView& out) {
  const size_t rows = out.samples.size();
  const auto row = [&](std::span<int32_t> all, size_t b) {
    return all.subspan(b * (all.size() / rows), all.size() / rows);
  };
  const size_t t = out.tokens.size() / rows * out.part.count;
  std::vector<int32_t> tokens(t), labels(t), positions(t), unasked(t);
  for (size_t b = 0; b < rows; ++b) {
    const int64_t index = first + b;
    out.samples[b] = index;
    data.read_row(
        index < samples ? index : data.samples(),
        {tokens, labels, positions,
         out.documents.empty() ? std::span(unasked) : row(out.documents, b), row(out.source, b)});
    copy_part(tokens, 1, out.part, row(out.tokens, b));
    copy_part(labels, 1, out.part, row(out.labels, b));
    copy_part(positions, 1, out.part, row(out.positions, b));
  }
}

}  // namespace tessera::data
