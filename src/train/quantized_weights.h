// Weights in 4 bits (base/nf4.h) at the start of a run: computed from those of a checkpoint, or
// from random initial values. A checkpoint of the run itself has them already.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/state/local_state.h"
#include "runtime/engine.h"
#include "tensor/tensor.h"
#include "train/initial_adapters.h"

namespace tessera::train {

// Returns true if the shard is one of the stored values of a quantized weight.
bool is_quantized(const Program& program, const StateShard& shard);

// Quantizes weights. Scales depend on all of a tensor, so each rank reads the whole tensors of
// which it has a part, one at a time.
class Quantizer {
 public:
  // `program` must outlive it.
  Quantizer(const Program& program, ReadWeight read, int threads);

  // Writes the box of the shard to `view`.
  void fill(const StateShard& shard, const TensorView& view);

  // Returns a function that reads a row of a weight, all inputs of one output, as GEMMs read it: a
  // quantized weight is dequantized. The Quantizer must outlive it.
  ReadWeight rows();

 private:
  void quantize(const Value& weight, const std::string& name, const WeightPart& part);

  const Program& program_;
  ReadWeight read_;
  int threads_ = 1;
  std::string tensor_;  // the name of the tensor that the members below are computed from
  std::vector<uint8_t> codes_, scales_;
  std::vector<float> levels_;
  // The levels of all tensors so far, by their names: one number per 16,384 weights.
  std::map<std::string, std::vector<float>> levels_of_;
};

// Reads the weights to quantize from a checkpoint, which must outlive the result. Throws
// NumericError if one contains NaN or infinity.
ReadWeight finite_weights_of(checkpoint::CheckpointReader& checkpoint);

// Writes the quantized weights of an engine from their initial random values of that seed. Does
// nothing without quantized weights.
void initialize_quantized(runtime::Engine& engine, uint64_t seed);

}  // namespace tessera::train
