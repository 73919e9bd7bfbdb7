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

#include "base/config.h"
#include "base/error.h"
#include "checkpoint/finite.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/merge.h"
#include "checkpoint/stored_model.h"
#include "compile/compile.h"
#include "data/batches.h"
#include "ir/state.h"

namespace tessera::eval {
namespace {

// A prompt is read in chunks of this many tokens; the remainder is read one token at a time.
constexpr int64_t kPromptChunk = 16;
constexpr int64_t kScoredSequences = 4;  // sequences per micro-batch when a dataset is scored

compile::CompileRequest request(const model::ModelConfig& model, compile::ProgramKind kind,
                                int64_t sequences, int64_t tokens, compile::Precision precision,
                                int64_t source = 0) {
  compile::CompileRequest r;
  r.encoder_tokens = source;
  r.model = model;
  r.kind = kind;
  r.sequences = sequences;
  r.tokens = tokens;
  r.precision = precision;
  return r;
}

// Names the fields of `lora` in a checkpoint's header, for read_fields().
struct AdapterFields {
  compile::AdapterPolicy* policy;
  static void fields(auto& self, auto&& visit) {
    visit("rank", self.policy->rank, "");
    visit("alpha", self.policy->alpha, "");
    visit("targets", self.policy->targets, "");
  }
};

// Returns the LoRA adapters in a checkpoint. Throws Error if its header does not describe them.
compile::AdapterPolicy adapters_of(const checkpoint::CheckpointReader& checkpoint) {
  compile::AdapterPolicy policy;
  if (!checkpoint::has_adapters(checkpoint)) return policy;
  const std::string source = checkpoint.folder().string();
  const Tree* lora = checkpoint.header().config.find("lora");
  if (lora == nullptr)
    throw Error(
        "{}: contains adapters, but its header has no 'lora' configuration. Merge the adapters "
        "first, or use another checkpoint.",
        source);
  AdapterFields fields{&policy};
  SourceLocations places;
  read_fields(fields_of(fields), *lora, source, places);
  if (policy.rank < 1 || !(policy.alpha > 0))
    throw Error(
        "{}: contains adapters, but its header has lora.rank = {} and lora.alpha = {}, expected "
        "both above 0. Merge the adapters first, or use another checkpoint.",
        source, policy.rank, policy.alpha);
  return policy;
}

std::unique_ptr<runtime::PreparedKernels> kernels_of(const ModelOptions& o) {
  const CpuFeatures cpu = read_cpu_features();
  return std::make_unique<runtime::PreparedKernels>(kernels::backend_of(cpu, o.threads, o.gpu));
}

// Throws Error if a stored tensor does not have the model's shape. Without this check, a corner of
// a larger tensor would be read.
void check_shape(const checkpoint::CheckpointReader& checkpoint, const StateShard& shard) {
  const checkpoint::StoredTensor* stored = checkpoint.find(shard.name);
  if (stored != nullptr && stored->shape != shard.shape)
    throw Error("{}: '{}' has the shape {}, expected {}. Use another checkpoint.",
                checkpoint.folder().string(), shard.name, to_string(stored->shape),
                to_string(shard.shape));
}

std::unique_ptr<runtime::Engine> load(checkpoint::CheckpointReader& checkpoint,
                                      std::vector<compile::CompileRequest> requests,
                                      const ModelOptions& options) {
  auto kernels = kernels_of(options);
  std::vector<Program> programs;
  for (compile::CompileRequest& r : requests) {
    // Adapters are computed separately from the weights, as in training, so no merged copy is made.
    r.adapters = adapters_of(checkpoint);
    programs.push_back(compile::compile(r, kernels->target()));
  }
  auto engine = std::make_unique<runtime::Engine>(std::move(programs), std::move(kernels));
  for (const StateShard& shard : local_state(engine->program())) {
    const TensorView view = engine->view(shard);
    check_shape(checkpoint, shard);
    checkpoint.read(shard.name, shard.begin, shard.end, view);
    checkpoint::require_finite(checkpoint, shard.name, view);
    engine->written(view);
  }
  return engine;
}

template <class T>
std::span<T> values(runtime::Executor& e, Role role) {
  const TensorView v = e.bound().view(e.bound().only(role));
  return {v.as<T>(), static_cast<size_t>(v.elements())};
}

void check_ids(std::span<const int32_t> tokens, const model::ModelConfig& model) {
  for (const int32_t id : tokens)
    if (id < 0 || id >= model.padded_vocabulary())
      throw Error(
          "token id {} is not in the model's vocabulary of {}. The text was encoded with "
          "another tokenizer; use the checkpoint's own.",
          id, model.padded_vocabulary());
}

// Longrope's frequencies change with the length, which a cache cannot follow: its keys are turned.
model::ModelConfig within_first_context(model::ModelConfig model) {
  if (model.rope_scaling.rope_type == model::RopeType::kLongrope)
    model.context = std::min(model.context, model.rope_scaling.original_max_position_embeddings);
  return model;
}

}  // namespace

double Score::bits_per_byte() const { return bytes > 0 ? loss_sum / std::numbers::ln2 / bytes : 0; }

model::ModelConfig model_of(const checkpoint::CheckpointReader& checkpoint) {
  return checkpoint::stored_model(checkpoint);
}

Score score(checkpoint::CheckpointReader& checkpoint, const data::ValidationData& data,
            int64_t samples, const ModelOptions& options) {
  const model::ModelConfig model = model_of(checkpoint);
  compile::CompileRequest validate =
      request(model, compile::ProgramKind::kValidate, kScoredSequences, data.row_tokens(),
              options.precision, data.row_source());
  validate.intra_document_masking = data.intra_document_masking();
  const auto engine = load(checkpoint, {validate}, options);
  runtime::Executor& e = engine->executor(0);
  data::BatchView view = {values<int32_t>(e, Role::kTokens), values<int32_t>(e, Role::kLabels),
                          values<int32_t>(e, Role::kPositions), values<int64_t>(e, Role::kSamples)};
  if (data.row_source() > 0) view.source = values<int32_t>(e, Role::kSource);
  if (data.intra_document_masking()) view.documents = values<int32_t>(e, Role::kDocuments);
  const int64_t count = samples > 0 ? std::min(samples, data.samples()) : data.samples();
  Score total;
  // The rows of the last batch beyond `count` have no labels, so they add neither loss nor tokens.
  for (int64_t first = 0; first < count; first += kScoredSequences) {
    data::fill_validation_batch(data, first, count, view);
    check_ids(view.tokens, model);
    check_ids(view.source, model);
    e.run();
    const std::span<double> report = values<double>(e, Role::kReport);
    total.loss_sum += report[kLossSum];
    total.tokens += report[kLossTokens];
  }
  return total;
}

int64_t logits_bytes(const model::ModelConfig& model, int64_t sequences, int64_t length,
                     const ModelOptions& options, int64_t source_length) {
  const auto kernels = kernels_of(options);
  return compile::compile(request(model, compile::ProgramKind::kLogits, sequences, length,
                                  options.precision, source_length),
                          kernels->target())
      .bytes;
}

LogitsModel::LogitsModel(checkpoint::CheckpointReader& checkpoint, int64_t sequences,
                         int64_t length, const ModelOptions& options, int64_t source_length)
    : model_(model_of(checkpoint)), length_(length) {
  if ((source_length > 0) != (model_.encoder_layers > 0))
    throw Error("{}", model_.encoder_layers > 0
                          ? "the model has an encoder, but the encoder input is missing. Give it."
                          : "the model has no encoder, but an encoder input was given. Omit it.");
  if (length > model_.context)
    throw Error("rows of {} tokens are longer than the model's context of {}. Use shorter rows.",
                length, model_.context);
  engine_ = load(checkpoint,
                 {request(model_, compile::ProgramKind::kLogits, sequences, length,
                          options.precision, source_length)},
                 options);
}

std::span<const float> LogitsModel::read(std::span<const int32_t> tokens,
                                         std::span<const int32_t> source) {
  check_ids(tokens, model_);
  check_ids(source, model_);
  runtime::Executor& e = engine_->executor(0);
  std::copy(tokens.begin(), tokens.end(), values<int32_t>(e, Role::kTokens).begin());
  if (!source.empty())
    std::copy(source.begin(), source.end(), values<int32_t>(e, Role::kSource).begin());
  const std::span<int32_t> positions = values<int32_t>(e, Role::kPositions);
  // In each row, positions start at 0.
  CHECK(std::ssize(positions) % length_ == 0, "{} positions in rows of {}", positions.size(),
        length_);
  for (auto row = positions.begin(); row != positions.end(); row += length_)
    std::iota(row, row + length_, 0);
  e.run();
  return values<float>(e, Role::kLogits);
}

Decoder::Decoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
                 std::span<const int32_t> source)
    : model_(within_first_context(model_of(checkpoint))), source_(source.begin(), source.end()) {
  CHECK((model_.encoder_layers > 0) == !source.empty(), "{} layers of an encoder, {} tokens",
        model_.encoder_layers, source.size());
  check_ids(source, model_);
  // Without an encoder, the programs read one token and a chunk. With an encoder, they read the
  // first token, for which the encoder runs, and one later token.
  std::vector<compile::CompileRequest> programs;
  const auto length = std::ssize(source);
  if (source.empty()) chunk_ = std::min(kPromptChunk, model_.context);
  for (const size_t tokens : {size_t{1}, chunk_})
    programs.push_back(
        request(model_, compile::ProgramKind::kDecode, 1, tokens, options.precision, length));
  programs[1].reuse_encoder_output = !source.empty();
  engine_ = load(checkpoint, programs, options);
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
