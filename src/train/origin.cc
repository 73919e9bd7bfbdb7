// Resolves the checkpoint that supplies the model and the tokenizer of a run.
#include "train/origin.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/stored_model.h"
#include "data/tokenizer.h"

namespace tessera {

Path origin_checkpoint(const RunConfig& config) {
  const std::string& from = config.checkpoint.from;
  try {
    return resolve_checkpoint(from);
  } catch (const Error& e) {
    // A run that has checkpoints of its own no longer needs the one that it started from.
    const LatestCheckpoint own = find_latest(Path(config.run.directory) / "checkpoints");
    if (own.found) return own.found->path;
    throw Error("checkpoint.from: {}", e.what());
  }
}

ModelConfig origin_model(const RunConfig& config) {
  const CheckpointReader reader(origin_checkpoint(config));
  ModelConfig model = stored_model(reader);
  model.preset.clear();
  return model;
}

Path tokenizer_of_run(const RunConfig& config) {
  if (!config.data.tokenizer.empty()) return tokenizer_file(config.data.tokenizer);
  if (config.checkpoint.from.empty())
    throw Error(
        "{}: data.tokenizer is not given. Name a tokenizer.json or SentencePiece model, or a "
        "checkpoint that holds one (checkpoint.from).",
        config.source);
  return tokenizer_file(origin_checkpoint(config));
}

}  // namespace tessera
