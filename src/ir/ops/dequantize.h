// Weights that are stored in 4 bits, as numbers that GEMMs read.
#pragma once

#include "base/dtype.h"
#include "base/shape.h"
#include "ir/ops/fields.h"

namespace tessera {

// The weight of which each part is stored in the format NF4 (base/nf4.h).
// The parts of a packed weight follow one another in dimension `dim` of its outputs; each has a
// value of each kind:
//   codes   [part's outputs…, blocks, 32] u8, blocks of 64 inputs of one output, two per byte
//   scales  [part's outputs…, blocks] u8, one scale per block
//   levels  [n] f32: from which the scales of the whole part are computed
struct DequantizeNf4 {
  static constexpr std::string_view kName = "dequantize_nf4";
  enum In { kCodes, kScales, kLevels };
  enum Out { kWeight };
  Shape shape;           // the shape of the whole weight: outputs, then inputs
  int64_t contract = 1;  // the number of its dimensions that are inputs
  int64_t parts = 1, dim = 0;
  DType type = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("shape", self.shape, Print::kAlways);
    visit("contract", self.contract, Print::kAlways, at_least(1));
    visit("parts", self.parts, Print::kAlways, kOperands);
    visit("dim", self.dim, Print::kAlways, at_least(0));
    visit("type", self.type, Print::kAlways);
  }
  static void inputs(const DequantizeNf4& a, auto&& slot) {
    slot(kCodes, a.parts);
    slot(kScales, a.parts);
    slot(kLevels, a.parts);
  }
  static const OpRule rule;
  bool operator==(const DequantizeNf4&) const = default;
};

}  // namespace tessera
