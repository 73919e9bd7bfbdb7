// NF4 on the CPU: blocks are divided among threads to quantize, and rows to dequantize.
#include "kernels/nf4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#define HWY_TARGET_INCLUDE "kernels/cpu/nf4_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/nf4_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(QuantizeBlocks);
HWY_EXPORT(DequantizeRows);

namespace {

// Returns the midpoints between adjacent values of scale codes. In f64 they are exact.
constexpr std::array<double, 255> scale_midpoints() {
  std::array<double, 255> m = {};
  for (size_t i = 0; i < m.size(); ++i)
    m[i] = (static_cast<double>(kNf4ScaleMap.values[i]) +
            static_cast<double>(kNf4ScaleMap.values[i + 1])) /
           2;
  return m;
}
constexpr std::array<double, 255> kScaleMidpoints = scale_midpoints();

// Returns the scale code whose value is nearest to x, the lower one of two.
uint8_t scale_code(float x) {
  const auto* const above =
      std::lower_bound(kScaleMidpoints.begin(), kScaleMidpoints.end(), static_cast<double>(x));
  return static_cast<uint8_t>(above - kScaleMidpoints.begin());
}

// Writes the codes and the factor of at most 256 scales.
void quantize_scales(std::span<const float> scales, float mean, uint8_t* codes, float& factor) {
  factor = 0;
  for (const float s : scales) factor = std::max(factor, std::abs(s - mean));
  for (size_t i = 0; i < scales.size(); ++i)
    codes[i] = factor > 0 ? scale_code((scales[i] - mean) / factor) : uint8_t{kNf4ZeroScale};
}

}  // namespace

void quantize_nf4(std::span<const float> w, std::span<uint8_t> codes, std::span<uint8_t> scales,
                  std::span<float> levels, int threads) {
  const auto blocks = static_cast<int64_t>(w.size()) / kNf4Block;
  CHECK(static_cast<int64_t>(w.size()) == blocks * kNf4Block && codes.size() * 2 == w.size() &&
            static_cast<int64_t>(scales.size()) == blocks &&
            static_cast<int64_t>(levels.size()) == nf4_levels(blocks),
        "NF4 of {} weights: {} bytes of codes, {} scales, {} levels", w.size(), codes.size(),
        scales.size(), levels.size());
  std::vector<float> own(scales.size());  // the scales in f32
  const auto quantize = &HWY_DYNAMIC_DISPATCH(QuantizeBlocks);
  parallel_rows(blocks, kNf4Block, threads, [&](int64_t begin, int64_t end) {
    quantize(w.data(), codes.data(), own.data(), begin, end);
  });
  double sum = 0;
  for (const float s : own) sum += static_cast<double>(s);
  levels[0] = blocks > 0 ? rounded(sum / static_cast<double>(blocks)) : 0.0f;
  parallel_rows(nf4_levels(blocks) - 1, kNf4ScaleBlock, threads, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t first = k * kNf4ScaleBlock, count = std::min(kNf4ScaleBlock, blocks - first);
      quantize_scales({own.data() + first, static_cast<size_t>(count)}, levels[0],
                      scales.data() + first, levels[static_cast<size_t>(k + 1)]);
    }
  });
}

void launch(Cpu, const Launch& l, const DequantizeNf4Args& a) {
  const int64_t rows = a.part.groups * a.part.count;
  const int64_t blocks = a.scales.elements() / std::max<int64_t>(rows, 1);
  const int64_t row_blocks = a.row_blocks > 0 ? a.row_blocks : blocks;
  CHECK(a.codes.dtype == DType::kU8 && a.scales.dtype == DType::kU8 &&
            a.levels.dtype == DType::kF32 && a.scales.elements() == rows * blocks &&
            a.codes.elements() == rows * blocks * (kNf4Block / 2),
        "NF4 codes {} with scales {} of {} rows", to_string(a.codes.shape),
        to_string(a.scales.shape), rows);
  CHECK(a.part.count >= 1 && a.part.first >= 0 && a.part.first + a.part.count <= a.part.width &&
            a.w.elements() == a.part.groups * a.part.width * blocks * kNf4Block,
        "NF4 codes {} of rows [{}, {}) of {} groups of {} rows of {}", to_string(a.codes.shape),
        a.part.first, a.part.first + a.part.count, a.part.groups, a.part.width,
        to_string(a.w.shape));
  CHECK(a.first_row >= 0 && a.first_block >= 0 && a.first_block + blocks <= row_blocks &&
            nf4_levels((a.first_row + rows - 1) * row_blocks + a.first_block + blocks) <=
                a.levels.elements(),
        "NF4 blocks from row {} and block {} of {}, with {} levels", a.first_row, a.first_block,
        row_blocks, a.levels.elements());
  const auto dequantize = &HWY_DYNAMIC_DISPATCH(DequantizeRows);
  parallel_rows(rows, blocks * kNf4Block, l.threads,
                [&](int64_t begin, int64_t end) { dequantize(a, blocks, begin, end); });
}

}  // namespace tessera::kernels
