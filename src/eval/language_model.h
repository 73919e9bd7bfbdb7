// A trained model out of a checkpoint, for scoring and for writing text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compile/request.h"
#include "data/training_data.h"
#include "runtime/machine.h"

namespace tessera::eval {

struct ModelOptions {
  compile::Precision precision = compile::Precision::kFp32;
  int threads = 1;
  // Of the device that use_gpu() made this process's own; without: the CPU.
  std::optional<GpuFeatures> gpu = {};
};

struct Score {
  double loss_sum = 0, tokens = 0, bytes = 0;  // nats, predicted tokens, bytes of their text
  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
  double bits_per_byte() const;
};

// The model of a checkpoint's header. Throws Error if it describes none.
model::ModelConfig model_of(const checkpoint::CheckpointReader& checkpoint);

// Returns the cross-entropy of the first `samples` samples of a set (0: all). If the set keeps
// documents separate (DatasetSpec::intra_document_masking), no token attends to another document.
Score score(checkpoint::CheckpointReader& checkpoint, const data::ValidationData& data,
            int64_t samples, const ModelOptions& options);

// What a LogitsModel takes.
int64_t logits_bytes(const model::ModelConfig& model, int64_t sequences, int64_t length,
                     const ModelOptions& options, int64_t source_length = 0);

// Logits of B sequences of T tokens each; an encoder reads S tokens beside each.
class LogitsModel {
 public:
  LogitsModel(checkpoint::CheckpointReader& checkpoint, int64_t sequences, int64_t length,
              const ModelOptions& options, int64_t source_length = 0);

  // tokens [B, T] and source [B, S], whose id 0 is padding → logits [B, T, V] in f32, row-major,
  // valid until the next call. Throws Error for ids beyond the vocabulary.
  std::span<const float> read(std::span<const int32_t> tokens,
                              std::span<const int32_t> source = {});

 private:
  model::ModelConfig model_;
  int64_t length_;
  std::unique_ptr<runtime::Machine> machine_;
};

// Reads tokens one behind the other and says what may come next. Keeps keys and values of all it
// has read; beside an encoder, which reads `source` with the first token, those of its output too.
class Decoder {
 public:
  Decoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
          std::span<const int32_t> source = {});

  int64_t context() const { return model_.context; }
  int64_t position() const { return position_; }
  // Reads the tokens and returns the logits [V] after the last of them, valid until the next call.
  // REQUIRES: position() + tokens.size() ≤ context(). Throws Error for ids beyond the vocabulary.
  std::span<float> read(std::span<const int32_t> tokens);
  // Begins a new text; beside an encoder, which reads another source where one is given.
  // REQUIRES: it is no longer than the first.
  void forget(std::span<const int32_t> source = {});

 private:
  void step(size_t program, std::span<const int32_t> tokens);

  model::ModelConfig model_;
  std::unique_ptr<runtime::Machine> machine_;
  int64_t position_ = 0;
  std::vector<int32_t> source_;  // beside an encoder
  size_t chunk_ = 1;             // tokens that the second program takes; the first takes one
};

}  // namespace tessera::eval
