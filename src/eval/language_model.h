// Loads the model of a checkpoint for scoring and for generation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/world.h"
#include "compile/request.h"
#include "data/training_data.h"
#include "runtime/engine.h"

namespace tessera::eval {

// Receives the number of samples, continuations or answers that are done, and the total.
using OnProgress = std::function<void(int64_t done, int64_t all)>;

struct ModelOptions {
  compile::Precision precision = compile::Precision::kFp32;
  int threads = 1;
  // Features of the GPU that use_gpu() selected for this process; nullopt: run on the CPU.
  std::optional<GpuFeatures> gpu = {};
  // The ranks that hold one model together, and how (evaluation_layout); nullptr: this rank holds
  // all of it. Functions that read such a model are then collective. Must outlive the model.
  comm::World* world = nullptr;
  compile::Layout layout = {};
  OnProgress on_progress = {};  // called on this rank during long evaluations; may be empty
};

// Returns a function whose argument is the number of items done since its last call. It reports
// their running total out of `all`.
std::function<void(int64_t)> counter(const OnProgress& on_progress, int64_t all);

struct Score {
  double loss_sum = 0, tokens = 0, bytes = 0;  // nats, predicted tokens, bytes of their text
  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
  double bits_per_byte() const;
};

// Returns the model of a checkpoint's header. Throws Error if the header does not describe one.
model::ModelConfig model_of(const checkpoint::CheckpointReader& checkpoint);

// Computes the cross-entropy of a dataset.
class ScoreModel {
 public:
  // `data` is read later too, and must outlive the model.
  ScoreModel(checkpoint::CheckpointReader& checkpoint, const data::ValidationData& data,
             const ModelOptions& options);

  // Reads the adapters that the checkpoint has now (CheckpointReader::use_adapters), and no other
  // weight. Returns false, and reads nothing, if they need another program, since their rank,
  // alpha, kind or targets differ. REQUIRES: the checkpoint of the constructor.
  bool replace_adapters(checkpoint::CheckpointReader& checkpoint);

  // Returns the cross-entropy of the first `samples` samples (0: all), on all ranks. With
  // DatasetSpec::intra_document_masking, no token attends to another document. Data-parallel ranks
  // read different samples.
  Score read(int64_t samples);

 private:
  const data::ValidationData& data_;
  ModelOptions options_;
  model::ModelConfig model_;
  compile::AdapterPolicy adapters_;
  std::unique_ptr<runtime::Engine> engine_;
};

// Returns the number of rows of that many tokens whose logits are computed at once: at most 512
// tokens, which bounds their memory, and at least one row.
int64_t rows_at_once(int64_t tokens);

// Returns the bytes of memory that a LogitsModel of these sizes needs on this rank.
int64_t logits_bytes(const model::ModelConfig& model, int64_t sequences, int64_t length,
                     const ModelOptions& options, int64_t source_length = 0);

// The part of the logits [B, T, V] that a rank has computed.
struct LogitsPart {
  // [rows, tokens, V'] of the global rows, tokens and ids from these on; V' >= ids. Empty if
  // another rank counts for this one: it has the same part, or this rank is not of the last stage.
  std::span<const float> values;
  int64_t first_row = 0, rows = 0, first_token = 0, tokens = 0, first_id = 0, ids = 0;

  // Returns the logits of the ids at a row and a position; empty if they are not in this part.
  std::span<const float> at(int64_t row, int64_t token) const;
};

// Computes the logits of B sequences of T tokens each. For a model with an encoder, each sequence
// has an encoder input of S tokens in addition.
class LogitsModel {
 public:
  // `sequences`: per data-parallel rank.
  LogitsModel(checkpoint::CheckpointReader& checkpoint, int64_t sequences, int64_t length,
              const ModelOptions& options, int64_t source_length = 0);

  bool replace_adapters(checkpoint::CheckpointReader& checkpoint);  // as in ScoreModel

  // The number B of sequences of all data-parallel ranks together.
  int64_t rows() const;
  // Computes the logits of tokens [B, T] and encoder input [B, S], in which id 0 is padding.
  // Collective: all ranks give the same tokens. Throws Error for ids outside the vocabulary.
  void run(std::span<const int32_t> tokens, std::span<const int32_t> source = {});
  // Returns this rank's part of the result, valid until the next run.
  LogitsPart part() const;
  // Runs, and returns the logits [B, T, V]: f32, row-major, valid until the next call.
  // REQUIRES: one rank holds the model.
  std::span<const float> read(std::span<const int32_t> tokens,
                              std::span<const int32_t> source = {});

 private:
  void write(Role role, std::span<const int32_t> all);

  model::ModelConfig model_;
  int64_t length_;
  compile::AdapterPolicy adapters_;
  std::unique_ptr<runtime::Engine> engine_;
};

// Reads the tokens of one text in order and returns the logits of the next token. Caches the keys
// and values of all tokens it has read. For a model with an encoder, the encoder reads `source`
// together with the first token, and the keys and values of its output are cached too.
class Decoder {
 public:
  Decoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
          std::span<const int32_t> source = {});

  // As in ScoreModel. A new text must begin after it (forget).
  bool replace_adapters(checkpoint::CheckpointReader& checkpoint);

  int64_t context() const { return model_.context; }
  int64_t position() const { return position_; }
  // Reads the tokens and returns the logits [V] after the last of them, valid until the next call.
  // REQUIRES: position() + tokens.size() ≤ context(). Throws Error for ids outside the vocabulary.
  std::span<float> read(std::span<const int32_t> tokens);
  // Begins a new text. `source`, if not empty, replaces the input of the encoder.
  // REQUIRES: it is at most as long as the source of the constructor.
  void forget(std::span<const int32_t> source = {});

 private:
  void step(size_t program, std::span<const int32_t> tokens);

  model::ModelConfig model_;
  compile::AdapterPolicy adapters_;
  std::unique_ptr<runtime::Engine> engine_;
  int64_t position_ = 0;
  std::vector<int32_t> source_;  // encoder input; empty in a model without an encoder
  size_t chunk_ = 1;             // tokens per run of the second program; the first reads one
};

}  // namespace tessera::eval
