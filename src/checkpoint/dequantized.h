// Dequantizes the weights of a checkpoint that are stored in 4 bits (base/nf4.h): one f32 tensor
// per weight, with its name and shape in the model.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "checkpoint/checkpoint.h"
#include "model/adapter_modules.h"
#include "tensor/tensor.h"

namespace tessera::checkpoint {

class DequantizedWeights {
 public:
  // Finds the quantized weights of a checkpoint; there may be none. Throws DamagedCheckpoint if the
  // stored values of a weight do not fit the model.
  explicit DequantizedWeights(const CheckpointReader& checkpoint);

  // Return the tensors, sorted by name, and one of them, or nullptr. They have no pieces.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;

  // Reads a box of such a tensor into `out`, an f32 array of the box's shape.
  void read(CheckpointReader& checkpoint, const StoredTensor& tensor, const Box& box, float* out);

 private:
  // A part of a weight, or all of it, whose stored values have names that begin with `name`.
  struct Part {
    std::string name;
    WeightPart part;
    int outputs = 1;  // the first dimensions of the weight that are its outputs
  };
  void load(CheckpointReader& checkpoint, const std::string& name);

  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::vector<Part>, std::less<>> parts_;  // by the name of the weight
  std::string loaded_;  // the name of the part whose stored values are below
  std::vector<uint8_t> codes_, scales_;
  std::vector<float> levels_;
};

}  // namespace tessera::checkpoint
