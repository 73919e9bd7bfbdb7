// Computes the stored values of weights in 4 bits, and copies this rank's boxes of them.
#include "train/quantized_weights.h"

#include "base/error.h"
#include "base/nf4.h"
#include "checkpoint/finite.h"
#include "kernels/nf4.h"
#include "model/weight_names.h"

namespace tessera::train {
namespace {

// The part of a weight that a stored value belongs to, and which of the three it is.
struct Source {
  WeightPart part;
  std::string_view suffix;
};

Source source_of(const Value& weight, const Value& stored) {
  for (const WeightPart& part : parts_of(weight))
    for (const std::string_view suffix : {model::kNf4Codes, model::kNf4Scales, model::kNf4Levels})
      if (model::quantized_name(weight.name, part.name, suffix) == stored.name)
        return {part, suffix};
  CHECK(false, "{} belongs to no part of {}", stored.name, weight.name);
}

// Copies the shard's box of the whole value to `view`.
void copy_shard(const StateShard& shard, const void* whole, const TensorView& view) {
  const Box box = {shard.begin, shard.end};
  copy_box(box, whole_box(shard.shape), static_cast<const std::byte*>(whole), box,
           view.as<std::byte>(), size_of(view.dtype));
}

}  // namespace

bool is_quantized(const Program& program, const StateShard& shard) {
  return shard.role == Role::kWeight && program[shard.weight].of != kNone;
}

Quantizer::Quantizer(const Program& program, ReadWeight read, int threads)
    : program_(program), read_(std::move(read)), threads_(threads) {}

void Quantizer::quantize(const Value& weight, const std::string& name, const WeightPart& part) {
  const std::string tensor = name + " " + part.name;
  if (tensor_ == tensor) return;
  Box box = whole_box(weight.shape);
  box.begin[part.dim] = part.first;
  box.end[part.dim] = part.first + part.count;
  const int64_t blocks = box.elements() / kNf4Block;
  std::vector<float> w(box.elements());
  read_(weight, name, box.begin, box.end, {w.data(), DType::kF32, box.extents()});
  codes_.resize(blocks * kNf4Bytes);
  scales_.resize(blocks);
  levels_.resize(nf4_levels(blocks));
  kernels::quantize_nf4(w, codes_, scales_, levels_, threads_);
  tensor_ = tensor;
}

void Quantizer::fill(const StateShard& shard, const TensorView& view) {
  const Value& stored = program_[shard.weight];
  const Value& weight = program_[stored.of];
  const Source source = source_of(weight, stored);
  const std::string name = full_name(weight, shard.layer);
  std::vector<float>& levels =
      levels_of_[model::quantized_name(name, source.part.name, model::kNf4Levels)];
  // State is visited by dtype, so a tensor's codes come before its levels, which are known then.
  if (source.suffix == model::kNf4Levels && !levels.empty())
    return copy_shard(shard, levels.data(), view);
  quantize(weight, name, source.part);
  levels = levels_;
  if (source.suffix == model::kNf4Codes) return copy_shard(shard, codes_.data(), view);
  if (source.suffix == model::kNf4Scales) return copy_shard(shard, scales_.data(), view);
  copy_shard(shard, levels.data(), view);
}

ReadWeight Quantizer::rows() {
  return [this](const Value& weight, const std::string& name, const std::vector<int64_t>& begin,
                const std::vector<int64_t>& end, const TensorView& out) {
    if (weight.role == Role::kWeight) return read_(weight, name, begin, end, out);
    for (const WeightPart& part : parts_of(weight)) {
      const int64_t at = begin[part.dim] - part.first;
      if (at < 0 || at >= part.count) continue;
      quantize(weight, name, part);
      int64_t first = 0;
      for (int d = 0; d < weight.shape.rank(); ++d)
        first = first * (d == part.dim ? part.count : weight.shape[d]) +
                (d == part.dim ? at : begin[d]);
      return dequantize_nf4(codes_, scales_, levels_, first,
                            {out.f32(), static_cast<size_t>(out.elements())});
    }
  };
}

ReadWeight finite_weights_of(checkpoint::CheckpointReader& checkpoint) {
  return [&checkpoint](const Value&, const std::string& name, const std::vector<int64_t>& begin,
                       const std::vector<int64_t>& end, const TensorView& out) {
    checkpoint.read(name, begin, end, out);
    checkpoint::require_finite(checkpoint, name, out);
  };
}

void initialize_quantized(runtime::Engine& engine, uint64_t seed) {
  const int threads = engine.kernels().threads();
  Quantizer quantizer(engine.program(), random_weights(seed, threads), threads);
  for (const StateShard& shard : local_state(engine.program(), engine.position().at)) {
    if (!is_quantized(engine.program(), shard)) continue;
    const TensorView view = engine.view(shard);
    quantizer.fill(shard, view);
    engine.written(view);
  }
}

}  // namespace tessera::train
