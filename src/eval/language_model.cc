// Loads a checkpoint into programs for scoring, for logits, and for decoding with a key/value
// cache.
//
// A decoder of a model without an encoder has two programs over one cache: one token, and a chunk
// of the prompt. In a model with an encoder, the first program runs the encoder with the first
// token, and the second one reuses its output.
#include "eval/language_model.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "checkpoint/stored_model.h"
#include "comm/agree.h"
#include "compile/compile.h"
#include "data/batches.h"
#include "eval/model_programs.h"
#include "ir/mesh.h"
#include "ir/state.h"

namespace tessera::eval {
namespace {

// A prompt is read in chunks of this many tokens; the remainder is read one token at a time.
constexpr int64_t kPromptChunk = 16;
constexpr int64_t kScoredSequences = 4;  // sequences per micro-batch when a dataset is scored

}  // namespace

double Score::bits_per_byte() const { return bytes > 0 ? loss_sum / std::numbers::ln2 / bytes : 0; }

model::ModelConfig model_of(const checkpoint::CheckpointReader& checkpoint) {
  checkpoint::require_logits(checkpoint);
  return checkpoint::stored_model(checkpoint);
}

ScoreModel::ScoreModel(checkpoint::CheckpointReader& checkpoint, const data::ValidationData& data,
                       const ModelOptions& options)
    : data_(data),
      options_(options),
      model_(model_of(checkpoint)),
      adapters_(adapters_of(checkpoint, model_)) {
  compile::CompileRequest validate =
      request(model_, compile::ProgramKind::kValidate, kScoredSequences, data.row_tokens(), options,
              data.row_source());
  validate.intra_document_masking = data.intra_document_masking();
  engine_ = load(checkpoint, {validate}, options);
}

bool ScoreModel::replace_adapters(checkpoint::CheckpointReader& checkpoint) {
  return eval::replace_adapters(checkpoint, model_, adapters_, *engine_);
}

std::function<void(int64_t)> counter(const OnProgress& on_progress, int64_t all) {
  return [on_progress, all, done = int64_t{0}](int64_t more) mutable {
    done += more;
    if (on_progress) on_progress(done, all);
  };
}

Score ScoreModel::read(int64_t samples) {
  runtime::Executor& e = engine_->executor(0);
  data::BatchView view = {values<int32_t>(e, Role::kTokens), values<int32_t>(e, Role::kLabels),
                          values<int32_t>(e, Role::kPositions), values<int64_t>(e, Role::kSamples)};
  if (data_.row_source() > 0) view.source = values<int32_t>(e, Role::kSource);
  if (data_.intra_document_masking()) view.documents = values<int32_t>(e, Role::kDocuments);
  const runtime::RankPosition& at = engine_->position();
  view.part = {at.at[AxisKind::kContext], at.mesh[AxisKind::kContext]};
  const int64_t count = samples > 0 ? std::min(samples, data_.samples()) : data_.samples();
  const int64_t together = kScoredSequences * group_size(at.mesh, data_ranks());
  const int64_t own = kScoredSequences * group_index(at.mesh, data_ranks(), at.at);
  Score total;
  std::string failed;
  // The rows of the last batch beyond `count` have no labels, so they add neither loss nor tokens.
  for (int64_t first = 0; first < count; first += together) {
    // A rank that cannot read its rows continues with empty ones, because other ranks wait for it.
    try {
      data::fill_validation_batch(data_, first + own, failed.empty() ? count : 0, view);
      check_ids(view.tokens, model_);
      check_ids(view.source, model_);
    } catch (const std::exception& error) {
      failed = error.what();
      data::fill_validation_batch(data_, first, 0, view);
    }
    if (!failed.empty() && options_.world == nullptr) throw Error("{}", failed);
    e.run();
    const std::span<double> report = values<double>(e, Role::kReport);
    total.loss_sum += report[kLossSum];
    total.tokens += report[kLossTokens];
    if (options_.on_progress) options_.on_progress(std::min(first + together, count), count);
  }
  if (options_.world != nullptr) comm::require_no_error(*options_.world, failed);
  return total;
}

int64_t rows_at_once(int64_t tokens) {
  constexpr int64_t kTokensAtOnce = 512;
  return std::max<int64_t>(1, kTokensAtOnce / tokens);
}

int64_t logits_bytes(const model::ModelConfig& model, int64_t sequences, int64_t length,
                     const ModelOptions& options, int64_t source_length) {
  const auto kernels = kernels_of(options);
  return compile::compile(request(model, compile::ProgramKind::kLogits, sequences, length, options,
                                  source_length),
                          kernels->target())
      .bytes;
}

LogitsModel::LogitsModel(checkpoint::CheckpointReader& checkpoint, int64_t sequences,
                         int64_t length, const ModelOptions& options, int64_t source_length)
    : model_(model_of(checkpoint)), length_(length), adapters_(adapters_of(checkpoint, model_)) {
  if ((source_length > 0) != (model_.encoder_layers > 0))
    throw Error("{}", model_.encoder_layers > 0
                          ? "the model has an encoder, but the encoder input is missing. Give it."
                          : "the model has no encoder, but an encoder input was given. Omit it.");
  if (length > model_.context)
    throw Error("rows of {} tokens are longer than the model's context of {}. Use shorter rows.",
                length, model_.context);
  engine_ = load(
      checkpoint,
      {request(model_, compile::ProgramKind::kLogits, sequences, length, options, source_length)},
      options);
}

bool LogitsModel::replace_adapters(checkpoint::CheckpointReader& checkpoint) {
  return eval::replace_adapters(checkpoint, model_, adapters_, *engine_);
}

int64_t LogitsModel::rows() const {
  const runtime::BoundProgram& bound = engine_->executor(0).bound();
  return bound.program()[bound.only(Role::kTokens)].shape[0];
}

// Copies this rank's box of an input [B, …]. Ranks hold contiguous rows, and parts of rows.
void LogitsModel::write(Role role, std::span<const int32_t> all) {
  const runtime::BoundProgram& bound = engine_->executor(0).bound();
  const ValueId id = bound.only(role);
  const Value& v = bound.program()[id];
  const runtime::RankPosition& p = engine_->position();
  const GlobalBox box = global_box_of(v, p.mesh, p.at);
  const std::span<int32_t> own = values<int32_t>(engine_->executor(0), role);
  const int64_t width = v.shape[1], own_width = v.local()[1];
  CHECK(std::ssize(all) == v.shape.elements(), "{} numbers for {}", all.size(), v.name);
  for (int64_t row = box.begin[0]; row < box.end[0]; ++row)
    std::copy_n(all.begin() + row * width + box.begin[1], box.end[1] - box.begin[1],
                own.begin() + (row - box.begin[0]) * own_width);
}

void LogitsModel::run(std::span<const int32_t> tokens, std::span<const int32_t> source) {
  check_ids(tokens, model_);
  check_ids(source, model_);
  write(Role::kTokens, tokens);
  if (!source.empty()) write(Role::kSource, source);
  CHECK(std::ssize(tokens) % length_ == 0, "{} tokens in rows of {}", tokens.size(), length_);
  std::vector<int32_t> positions(tokens.size());  // from 0 in each row
  for (auto row = positions.begin(); row != positions.end(); row += length_)
    std::iota(row, row + length_, 0);
  write(Role::kPositions, positions);
  engine_->executor(0).run();
}

LogitsPart LogitsModel::part() const {
  return logits_part(engine_->executor(0), engine_->position());
}

std::span<const float> LogitsPart::at(int64_t row, int64_t token) const {
  row -= first_row;
  token -= first_token;
  if (values.empty() || row < 0 || row >= rows || token < 0 || token >= tokens) return {};
  const auto stride = std::ssize(values) / (rows * tokens);
  return values.subspan((row * tokens + token) * stride, ids);
}

std::span<const float> LogitsModel::read(std::span<const int32_t> tokens,
                                         std::span<const int32_t> source) {
  CHECK(engine_->position().mesh.ranks() == 1,
        "the logits are sharded over ranks; expected one rank");
  run(tokens, source);
  return values<float>(engine_->executor(0), Role::kLogits);
}

Decoder::Decoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
                 std::span<const int32_t> source)
    : model_(within_first_context(model_of(checkpoint))),
      adapters_(adapters_of(checkpoint, model_)),
      source_(source.begin(), source.end()) {
  CHECK((model_.encoder_layers > 0) == !source.empty(), "{} layers of an encoder, {} tokens",
        model_.encoder_layers, source.size());
  check_ids(source, model_);
  // Without an encoder, the programs read one token and a chunk. With an encoder, they read the
  // first token, for which the encoder runs, and one later token.
  std::vector<compile::CompileRequest> programs;
  const auto length = std::ssize(source);
  if (source.empty()) chunk_ = std::min(kPromptChunk, model_.context);
  for (const size_t tokens : {size_t{1}, chunk_})
    programs.push_back(request(model_, compile::ProgramKind::kDecode, 1, tokens, options, length));
  programs[1].reuse_encoder_output = !source.empty();
  engine_ = load(checkpoint, programs, options);
}

bool Decoder::replace_adapters(checkpoint::CheckpointReader& checkpoint) {
  return eval::replace_adapters(checkpoint, model_, adapters_, *engine_);
}

void Decoder::forget(std::span<const int32_t> source) {
  CHECK(source.size() <= source_.size(), "a source of {} tokens, compiled for {}", source.size(),
        source_.size());
  position_ = 0;
  if (source.empty()) return;
  check_ids(source, model_);
  // A shorter source is padded with id 0, which the encoder does not attend to.
  source_.assign(source_.size(), 0);
  std::ranges::copy(source, source_.begin());
}

void Decoder::step(size_t program, std::span<const int32_t> tokens) {
  runtime::Executor& e = engine_->executor(program);
  std::copy(tokens.begin(), tokens.end(), values<int32_t>(e, Role::kTokens).begin());
  if (!source_.empty())
    std::copy(source_.begin(), source_.end(), values<int32_t>(e, Role::kSource).begin());
  const std::span<int32_t> positions = values<int32_t>(e, Role::kPositions);
  for (int32_t& p : positions) p = static_cast<int32_t>(position_++);
  e.run();
}

std::span<float> Decoder::read(std::span<const int32_t> tokens) {
  CHECK(!tokens.empty() && position_ + std::ssize(tokens) <= context(),
        "{} tokens at position {} of {}", tokens.size(), position_, context());
  check_ids(tokens, model_);
  size_t last = 0;
  while (!tokens.empty()) {
    // Without an encoder, the second program reads a chunk while enough tokens are left. With one,
    // it reads every token but the first and reuses the encoder's output.
    const bool second = source_.empty() ? tokens.size() >= chunk_ : position_ > 0;
    last = second ? 1 : 0;
    const size_t n = second ? chunk_ : 1;
    step(last, tokens.first(n));
    tokens = tokens.subspan(n);
  }
  // A chunk has logits for each of its tokens, those of the last token at the end.
  const std::span<float> all = values<float>(engine_->executor(last), Role::kLogits);
  return all.last(model_.padded_vocabulary());
}

}  // namespace tessera::eval
