// Computes the initial magnitudes of DoRA from the rows of the weights. A shard of magnitudes may
// be any box of them, so each row is read by its index in the whole weight.
#include "train/initial_adapters.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "checkpoint/merge.h"
#include "kernels/elementwise.h"
#include "model/adapter_modules.h"
#include "runtime/initialize.h"
#include "train/quantized_weights.h"

namespace tessera::train {
namespace {

// The weight that magnitudes belong to, and the part of it.
struct Scaled {
  const Value* weight = nullptr;
  WeightPart part;
};

Scaled scaled_by(const Program& program, const std::string& magnitude) {
  const std::string matrix = magnitude.substr(0, magnitude.size() - model::kLoraMagnitude.size());
  for (const Value& stored : program.values) {
    if (stored.role != Role::kWeight || !stored.frozen) continue;
    // A quantized weight is a value that is computed from stored ones.
    const Value& v = stored.of == kNone ? stored : program[stored.of];
    for (const WeightPart& part : parts_of(v)) {
      const std::string stem = v.name.substr(0, v.name.rfind('.'));
      if (matrix == (part.name.empty() ? stem : stem + "." + part.name)) return {&v, part};
    }
  }
  CHECK(false, "{} belongs to no weight", magnitude);
}

}  // namespace

bool is_magnitude(const StateShard& shard) {
  return shard.role == Role::kWeight && shard.name.ends_with(model::kLoraMagnitude);
}

void fill_magnitudes(const Program& program, const StateShard& shard, const TensorView& view,
                     const ReadWeight& read) {
  const Scaled of = scaled_by(program, program[shard.weight].name);
  const Shape& shape = of.weight->shape;
  const int outputs = shard.shape.rank();
  const std::string name = full_name(*of.weight, shard.layer);
  std::vector<float> row(shape.product(outputs, shape.rank()));
  std::vector<float> norms;
  for (std::vector<int64_t> at = shard.begin; std::ssize(norms) < view.elements();) {
    std::vector<int64_t> begin(shape.rank(), 0), end = shape.dims();
    for (int d = 0; d < outputs; ++d) {
      begin[d] = at[d] + (d == of.part.dim ? of.part.first : 0);
      end[d] = begin[d] + 1;
    }
    std::vector<int64_t> extents(shape.rank(), 1);
    std::copy(shape.dims().begin() + outputs, shape.dims().end(), extents.begin() + outputs);
    read(*of.weight, name, begin, end, {row.data(), DType::kF32, Shape(extents)});
    double squares = 0;
    for (const float x : row) {
      const double w = rounded_to(x, of.weight->dtype);
      squares += w * w;
    }
    norms.push_back(static_cast<float>(std::sqrt(squares)));
    for (int d = outputs - 1; d >= 0 && ++at[d] == shard.end[d]; --d) at[d] = shard.begin[d];
  }
  const TensorView from = {norms.data(), DType::kF32, view.shape};
  kernels::launch(kernels::Cpu(), {}, kernels::CastArgs{from, view});
}

ReadWeight random_weights(uint64_t seed, int threads) {
  return [=](const Value& weight, const std::string& name, const std::vector<int64_t>& begin,
             const std::vector<int64_t>& end, const TensorView& out) {
    runtime::initialize_part(out, weight.shape, {begin, end}, weight.initial, hash_name(name, seed),
                             threads);
  };
}

void initialize_magnitudes(runtime::Engine& engine, uint64_t seed) {
  const int threads = engine.kernels().threads();
  Quantizer quantizer(engine.program(), random_weights(seed, threads), threads);
  const ReadWeight rows = quantizer.rows();
  bool any = false;
  for (const StateShard& of : local_state(engine.program(), engine.position().at)) {
    const StateShard shard = starts_as_weight(of.role) ? weight_piece(of) : of;
    if (!is_magnitude(shard)) continue;
    const TensorView view = engine.view(of);
    fill_magnitudes(engine.program(), shard, view, rows);
    engine.written(view);
    any = true;
  }
  if (any) engine.round_weights();
}

std::optional<checkpoint::StoredAdapters> adapters_of_run(
    const config::RunConfig& config, const checkpoint::CheckpointReader& checkpoint) {
  if (config.lora.from.empty()) return std::nullopt;
  if (checkpoint::has_adapters(checkpoint))
    throw Error(
        "lora.from = {}, but {} holds adapters, too. Remove lora.from to continue with those, or "
        "merge them first (`tessera checkpoint merge`).",
        config.lora.from, checkpoint.folder().string());
  return checkpoint::read_peft(config.lora.from, config.model);
}

}  // namespace tessera::train
