// Checks the model in a checkpoint's header against the model's rules and against the stored
// tensors.
#include "checkpoint/stored_model.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "checkpoint/convert.h"
#include "model/check_model.h"
#include "model/presets.h"
#include "model/weight_names.h"

namespace tessera::checkpoint {
namespace {

constexpr size_t kMostListed = 12;  // faults named in one message

bool is_reward_model(const CheckpointReader& checkpoint) {
  return checkpoint.find(std::string(model::kScoreHead)) != nullptr;
}

}  // namespace

model::ModelConfig model_in_header(const CheckpointReader& checkpoint) {
  const std::string source = checkpoint.folder().string();
  model::ModelConfig model;
  SourceLocations places;
  read_fields(fields_of(model), checkpoint.header().model, source, places);
  model::derive_sizes(model);
  try {
    model::check_model(model);
    if (model.vocabulary == 0) throw Error("model.vocabulary = 0, expected 1 or more");
  } catch (const Error& e) {
    throw Error(
        "{}: its header describes an invalid model: {} Use another checkpoint, or import this "
        "model again.",
        source, e.what());
  }
  return model;
}

std::string listed_faults(const std::vector<std::string>& faults) {
  std::string text;
  for (size_t i = 0; i < std::min(faults.size(), kMostListed); ++i) text += "\n  " + faults[i];
  if (faults.size() > kMostListed)
    text += fmt::format("\n  and {} more", faults.size() - kMostListed);
  return text;
}

std::vector<const StoredTensor*> stored_weights(const CheckpointReader& checkpoint,
                                                const std::vector<model::HfTensor>& names) {
  std::vector<const StoredTensor*> stored;
  std::vector<std::string> faults;
  for (const model::HfTensor& t : names) {
    // If there is an f32 master weight, it is the exact one.
    const StoredTensor* found = checkpoint.find(t.ours + "|master");
    if (!found) found = checkpoint.find(t.ours);
    if (!found)
      faults.push_back(fmt::format("{}: missing, expected {}", t.ours, to_string(t.shape)));
    else if (found->shape != t.shape)
      faults.push_back(fmt::format("{}: has the shape {}, expected {}", t.ours,
                                   to_string(found->shape), to_string(t.shape)));
    else if (!is_float(found->dtype))
      faults.push_back(fmt::format("{}: is stored as {}, expected f32, bf16, f16 or f64", t.ours,
                                   name_of(found->dtype)));
    stored.push_back(found);
  }
  if (!faults.empty())
    throw Error("{}: its tensors are not those of the model in its header:{}",
                checkpoint.folder().string(), listed_faults(faults));
  return stored;
}

model::ModelConfig stored_model(const CheckpointReader& checkpoint) {
  model::ModelConfig model = model_in_header(checkpoint);
  std::vector<model::HfTensor> names = model::hf_tensors(model);
  if (is_reward_model(checkpoint))
    std::erase_if(names, [](const model::HfTensor& t) { return t.ours == "head.weight"; });
  stored_weights(checkpoint, names);
  return model;
}

void require_logits(const CheckpointReader& checkpoint) {
  if (is_reward_model(checkpoint))
    throw Error(
        "{}: is a reward model (objective.kind = reward). It has scores in place of the logits of "
        "tokens, so it cannot generate or evaluate text and is not exported. Use a checkpoint of "
        "another objective; `tessera eval --preferences FILE` evaluates this one.",
        checkpoint.folder().string());
}

}  // namespace tessera::checkpoint
