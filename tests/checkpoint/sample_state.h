// A small state of several tensors with known contents, and checkpoints of it.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/philox.h"
#include "checkpoint/async_save.h"

namespace tessera::checkpoint {

// Owns the values that StateTensors view.
struct SampleState {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  std::vector<std::vector<float>> values;

  explicit SampleState(uint64_t seed) {
    add("embed.weight", {40, 24}, seed);
    add("layer0.attn.qkv.weight", {4, 3, 6, 24}, seed);
    add("layer0.attn.qkv.weight|moment1", {4, 3, 6, 24}, seed);
    add("layer0.norm1.gain", {24}, seed);
    add("scale", {}, seed);
  }
  void add(const std::string& name, Shape shape, uint64_t seed) {
    const Philox random{hash_name(name, seed)};
    std::vector<float> v(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = Philox::uniform(static_cast<uint32_t>(random.word(i) >> 32));
    names.push_back(name);
    shapes.push_back(std::move(shape));
    values.push_back(std::move(v));
  }
  StateTensor tensor(size_t i) {
    return {names[i], DType::kF32, shapes[i], {}, {}, {values[i].data(), DType::kF32, shapes[i]}};
  }
  std::vector<StateTensor> tensors() {
    std::vector<StateTensor> all;
    for (size_t i = 0; i < names.size(); ++i) all.push_back(tensor(i));
    return all;
  }
};

inline CheckpointHeader sample_header(int64_t step) {
  CheckpointHeader h;
  h.step = step;
  h.tokens = step * 1000;
  h.version = "0.1.0";
  h.config.set("run", Tree(std::string("sample")));
  h.model.set("family", Tree(std::string("neox")));
  h.tokenizer = "{\"model\": \"words\"}";
  return h;
}

inline void save_sample(const Path& dir, int64_t step, uint64_t seed) {
  SampleState state(seed);
  save(dir, sample_header(step), state.tensors());
}

// Whether the checkpoint holds what SampleState(seed) holds, to the last bit.
inline bool holds_sample(const Path& folder, uint64_t seed) {
  SampleState state(seed);
  CheckpointReader reader(folder);
  if (reader.tensors().size() != state.names.size()) return false;
  for (size_t i = 0; i < state.names.size(); ++i) {
    std::vector<float> got(state.values[i].size(), -1);
    reader.read(state.names[i], {got.data(), DType::kF32, state.shapes[i]});
    if (std::memcmp(got.data(), state.values[i].data(), got.size() * 4) != 0) return false;
  }
  return true;
}

}  // namespace tessera::checkpoint
