// NF4 for one instruction set. A block has only 16 different weights: they are computed and rounded
// to the dtype once, then each of their bytes is looked up by 16 codes at a time.
// Compiled without floating-point contraction, so all targets give the same bits.
#include <cstring>

#include "kernels/cpu/simd.h"
#include "kernels/nf4.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Writes the codes and the scales of blocks [begin, end) of w.
HWY_NOINLINE inline void QuantizeBlocks(const float* w, uint8_t* codes, float* scales,
                                        int64_t begin, int64_t end) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) int32_t code[kNf4Block];
  for (int64_t block = begin; block < end; ++block) {
    const float* const x = w + block * kNf4Block;
    auto most = hn::Zero(d);
    for (int64_t i = 0; i < kNf4Block; i += lanes)
      most = hn::Max(most, hn::Abs(hn::LoadU(d, x + i)));
    scales[block] = hn::GetLane(hn::MaxOfLanes(d, most));
    const auto divisor = hn::Set(d, scales[block] > 0 ? scales[block] : 1.0f);
    for (int64_t i = 0; i < kNf4Block; i += lanes) {
      const auto ratio = hn::Div(hn::LoadU(d, x + i), divisor);
      auto count = hn::Zero(di);
      for (const float t : kNf4Thresholds) {
        const auto above = hn::RebindMask(di, hn::Gt(ratio, hn::Set(d, t)));
        count = hn::Sub(count, hn::VecFromMask(di, above));  // a true lane is -1
      }
      hn::StoreU(count, di, code + i);
    }
    uint8_t* const to = codes + block * (kNf4Block / 2);
    for (int64_t i = 0; i < kNf4Block / 2; ++i)
      to[i] = static_cast<uint8_t>(code[2 * i] << 4 | code[2 * i + 1]);
  }
}

// Writes the numbers of the codes of a block. `numbers` are those of all codes, kBytes each.
#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes
template <int kBytes>
HWY_INLINE void WriteBlock(const uint8_t* numbers, const uint8_t* codes, uint8_t* to) {
  for (int64_t i = 0; i < kNf4Block / 2; ++i, to += 2 * kBytes) {
    std::memcpy(to, numbers + (codes[i] >> 4) * kBytes, kBytes);
    std::memcpy(to + kBytes, numbers + (codes[i] & 15) * kBytes, kBytes);
  }
}
#else
using Bytes = hn::Vec<hn::Full128<uint8_t>>;

// Writes the numbers of 16 codes. `byte` has a table of 16 per byte of a number.
template <int kBytes>
HWY_INLINE void WriteNumbers(const Bytes (&byte)[kBytes], Bytes codes, uint8_t* to) {
  const hn::Full128<uint8_t> d;
  const auto of = [&](int k) HWY_ATTR { return hn::TableLookupBytes(byte[k], codes); };
  if constexpr (kBytes == 2)
    hn::StoreInterleaved2(of(0), of(1), d, to);
  else
    hn::StoreInterleaved4(of(0), of(1), of(2), of(3), d, to);
}

template <int kBytes>
HWY_INLINE void WriteBlock(const uint8_t* numbers, const uint8_t* codes, uint8_t* to) {
  const hn::Full128<uint8_t> d;
  Bytes byte[kBytes];
  if constexpr (kBytes == 2)
    hn::LoadInterleaved2(d, numbers, byte[0], byte[1]);
  else
    hn::LoadInterleaved4(d, numbers, byte[0], byte[1], byte[2], byte[3]);
  for (int64_t i = 0; i < kNf4Block / 2; i += 16, to += 32 * kBytes) {
    const Bytes both = hn::LoadU(d, codes + i);
    const Bytes first = hn::ShiftRight<4>(both), second = hn::And(both, hn::Set(d, uint8_t{15}));
    WriteNumbers(byte, hn::InterleaveLower(d, first, second), to);
    WriteNumbers(byte, hn::InterleaveUpper(d, first, second), to + 16 * kBytes);
  }
}
#endif

// Writes rows [begin, end).
HWY_NOINLINE inline void DequantizeRows(const DequantizeNf4Args& a, int64_t blocks, int64_t begin,
                                        int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* const levels = a.levels.as<float>();
  const Sink w(a.w);
  alignas(64) uint8_t numbers[16 * sizeof(float)];
  const Sink to_numbers(numbers, w.type);
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* codes = a.codes.as<uint8_t>() + row * blocks * (kNf4Block / 2);
    const uint8_t* const scales = a.scales.as<uint8_t>() + row * blocks;
    auto* to = (w + a.part.column(row) * blocks * kNf4Block).as<uint8_t>();
    const int64_t first =
        (a.first_row + row) * (a.row_blocks > 0 ? a.row_blocks : blocks) + a.first_block;
    for (int64_t b = 0; b < blocks; ++b) {
      const float factor = levels[1 + (first + b) / kNf4ScaleBlock];
      const auto scale = hn::Set(d, kNf4ScaleMap.values[scales[b]] * factor + levels[0]);
      for (int64_t i = 0; i < 16; i += lanes)
        Store(d, hn::Mul(hn::LoadU(d, kNf4Values + i), scale), to_numbers, i);
      if (w.type == DType::kF32)
        WriteBlock<4>(numbers, codes, to);
      else
        WriteBlock<2>(numbers, codes, to);
      codes += kNf4Block / 2;
      to += kNf4Block * w.bytes();
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
