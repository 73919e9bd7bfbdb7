// A small Hugging Face folder of each family, with tensors that all types of 16 bits hold exactly.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/async_save.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors.h"
#include "model/family.h"
#include "model/hf_config.h"
#include "model/hf_names.h"
#include "model/presets.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {

inline model::ModelConfig small(model::Family family) {
  model::ModelConfig m;
  model::apply_family(family, m);
  m.layers = 2;
  m.hidden = 24;
  m.heads = 3;
  m.feed_forward = 40;
  m.vocabulary = 30;
  m.vocabulary_multiple = 1;
  m.context = 16;
  m.tied_embeddings = family == model::Family::kGpt2;
  if (model::rule_of(family).has_encoder) m.encoder_layers = 3;
  if (model::rule_of(family).latent) m.shared_feed_forward = m.feed_forward;
  if (!model::rule_of(family).supports_gqa) return m;
  m.heads = 4;
  m.kv_heads = 2;
  return m;
}

// Values that all types of 16 bits hold exactly: small integers that differ from place to place.
inline FillPiece pattern(size_t tensor, DType type) {
  return [=](int64_t first, int64_t count, std::byte* out) {
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>((first + i) * 7 % 251 - static_cast<int64_t>(tensor));
      convert(reinterpret_cast<const std::byte*>(&x), DType::kF32, out + i * size_of(type), type,
              1);
    }
  };
}

struct FolderFault {
  std::string leave_out, rename_from, rename_to, reshape;
  bool without_prefix = false;
};

inline void write_folder(const Path& folder, const model::ModelConfig& model, DType type,
                         const FolderFault& change = {}) {
  std::filesystem::create_directories(folder);
  std::vector<SafetensorsPlan> plans;
  const std::vector<model::HfTensor> parts = model::hf_tensors(model);
  for (const std::span<const model::HfTensor> group : model::by_theirs(parts)) {
    const model::HfTensor& t = group[0];
    SafetensorsPlan p{t.theirs, type, t.their_shape};
    const std::string prefix(model::hf_prefix(model.family));
    if (t.theirs == change.leave_out) continue;
    if (t.theirs == change.rename_from) p.name = change.rename_to;
    if (t.theirs == change.reshape) p.shape[0] += 1;
    if (change.without_prefix && p.name.starts_with(prefix)) p.name.erase(0, prefix.size());
    plans.push_back(p);
  }
  if (change.without_prefix) plans.push_back({"h.0.attn.bias", DType::kU8, Shape{1, 1, 4, 4}});
  write_safetensors(folder / "model.safetensors", plans, [&](size_t i) {
    return pattern(i, plans[i].dtype == type ? type : DType::kF32);
  });
  write_file(folder / "config.json",
             to_json(model::hf_config_of_model(model, std::nullopt, type), 2));
}

// All tensors of a checkpoint in f32, to be saved again.
struct StoredState {
  explicit StoredState(CheckpointReader& reader) {
    for (const StoredTensor& t : reader.tensors()) {
      values.emplace_back(static_cast<size_t>(t.shape.elements()));
      const TensorView view{values.back().data(), t.dtype, t.shape};
      reader.read(t.name, view);
      tensors.push_back({t.name, t.dtype, t.shape, {}, {}, view});
    }
  }
  std::vector<std::vector<float>> values;
  std::vector<StateTensor> tensors;
};

class HfFolder : public testing::Test {
 protected:
  Path at(const char* name) const { return temporary_.path() / name; }
  std::string import_error() const {
    return error_of([&] { import_hf(at("hf"), at("checkpoint"), "0.1.0"); });
  }

 private:
  TemporaryFolder temporary_{TemporaryFolder::quick()};
};

}  // namespace tessera::checkpoint
