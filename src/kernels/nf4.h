// Kernels of the 4-bit format NF4 (base/nf4.h). Codes and weights have the same bits on every
// processor, for any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/nf4.h"
#include "kernels/adapters.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// The code of x is the number of thresholds below x. They are the midpoints of the values up to an
// ulp, with the digits that bitsandbytes has on GPUs. Some digits are so near to the middle of two
// f32 that only one correct rounding gives the same number.
constexpr float kNf4Thresholds[15] = {
    -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f};

// Quantizes a whole tensor. Writes codes [n/2] (two per byte, the first in the high half), scales
// [n/64] (scale codes) and levels [nf4_levels(n/64)]. A block of zeros has the code of 0 only. Of
// two scale codes that are equally near, the lower one is written. REQUIRES: w.size() is a multiple
// of 64, and all weights are finite.
void quantize_nf4(std::span<const float> w, std::span<uint8_t> codes, std::span<uint8_t> scales,
                  std::span<float> levels, int threads);

// Writes rows of a quantized tensor, or of the part of it that a rank holds, to the rows of a part
// of w, rounded to nearest, ties to even. Row r of the codes is the r-th row of the parts of all
// groups.
struct DequantizeNf4Args {
  TensorView codes;   // [rows, blocks, 32] u8
  TensorView scales;  // [rows, blocks] u8
  TensorView levels;  // [levels of the whole tensor] f32
  TensorView w;       // [groups · width, blocks · 64] f32, bf16 or f16; only the part is written
  PartColumns part;   // "columns" are rows of w; rows = groups · count
  // The first row and the first block of a row in the whole tensor, and the blocks of a whole row
  // (0: as many as the codes have). Block (r, b) has the number
  // (first_row + r) · row_blocks + first_block + b in the whole tensor, which divided by 256
  // selects the factor.
  int64_t first_row = 0, first_block = 0, row_blocks = 0;
};
void launch(Cpu, const Launch&, const DequantizeNf4Args&);
void launch(Gpu, const Launch&, const DequantizeNf4Args&);

}  // namespace tessera::kernels
