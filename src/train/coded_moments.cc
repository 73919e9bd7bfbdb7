// Converts moments in 8 bits from and to the f32 of checkpoints.
#include "train/coded_moments.h"

#include "base/shape.h"
#include "kernels/update.h"

namespace tessera::train {

checkpoint::StateTensor decoded_moments(const runtime::Engine& engine, const StateShard& shard) {
  const auto fill = [blocks = engine.moment_blocks(shard)](int64_t first, int64_t count,
                                                           std::byte* out) {
    kernels::dequantize_moments(
        {blocks.codes.as<uint8_t>(), static_cast<size_t>(blocks.codes.elements())},
        {blocks.scales.f32(), static_cast<size_t>(blocks.scales.elements())}, blocks.code,
        blocks.first + first, {reinterpret_cast<float*>(out), static_cast<size_t>(count)});
  };
  const TensorView no_memory = {nullptr, DType::kF32, Box{shard.begin, shard.end}.extents()};
  return {shard.name, DType::kF32, shard.shape, shard.begin, shard.end, no_memory, fill};
}

TensorView LoadedMoments::view(const StateShard& shard) {
  const BufferKindId weights = engine_.program().kind(shard.kind).like;
  if (weights != weights_ || shard.layer != layer_) write();
  weights_ = weights;
  layer_ = shard.layer;
  Collected& c = buffers_.try_emplace(shard.kind, Collected{shard, {}}).first->second;
  // Elements of no weight are padding, which stays zero.
  c.moments.resize(static_cast<size_t>(engine_.moments_in_buffer(shard)));
  return {c.moments.data() + shard.first, DType::kF32, Box{shard.begin, shard.end}.extents()};
}

void LoadedMoments::write() {
  for (const auto& [kind, c] : buffers_) engine_.write_moments(c.shard, c.moments);
  buffers_.clear();
}

}  // namespace tessera::train
