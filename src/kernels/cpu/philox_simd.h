// Philox4x32-10 of base/philox.h, many blocks at a time. Include after simd.h, once per target.
#include "kernels/cpu/random_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// words[4 i + k] = word k of block first + i of Philox{key} with this lane, i < kPhiloxBlocks.
template <int64_t kBlocks = kPhiloxBlocks>
HWY_INLINE void PhiloxWords(uint64_t key, uint64_t first, uint64_t lane, uint32_t* words) {
  if constexpr (kLanes < 4) {
    for (uint64_t i = 0; i < uint64_t{kBlocks}; ++i) {
      const PhiloxBlock b = Philox{key}.block(first + i, lane);
      for (uint64_t k = 0; k < 4; ++k) words[4 * i + k] = b[k];
    }
  } else {
    // Each 64-bit lane has one counter word in its lower half. Upper halves are never read: the
    // multiplication reads lower halves, and the upper half of its result is shifted down.
    // Two vectors of blocks are processed at a time, since each round depends on the previous one.
    const hn::ScalableTag<uint64_t> u64;
    const hn::ScalableTag<uint32_t> u32;
    using Counters = hn::Vec<decltype(u64)>;
    const auto low = hn::Set(u64, 0xffffffffu);
    const auto m0 = hn::Set(u32, 0xD2511F53u), m1 = hn::Set(u32, 0xCD9E8D57u);
    constexpr uint64_t kStep = static_cast<uint64_t>(kLanes / 2);
    for (uint64_t i = 0; i < uint64_t{kBlocks}; i += 2 * kStep) {
      Counters c0[2], c1[2], c2[2], c3[2];
      for (uint64_t j = 0; j < 2; ++j) {
        c0[j] = hn::Iota(u64, first + i + j * kStep);
        c1[j] = hn::ShiftRight<32>(c0[j]);
        c2[j] = hn::Set(u64, lane);
        c3[j] = hn::Set(u64, lane >> 32);
      }
      auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
      for (int round = 0; round < 10; ++round) {
        const auto key0 = hn::Set(u64, k0), key1 = hn::Set(u64, k1);
        for (uint64_t j = 0; j < 2; ++j) {
          const auto a = hn::MulEven(hn::BitCast(u32, c0[j]), m0);
          const auto b = hn::MulEven(hn::BitCast(u32, c2[j]), m1);
          c0[j] = hn::Xor(hn::ShiftRight<32>(b), hn::Xor(c1[j], key0));
          c2[j] = hn::Xor(hn::ShiftRight<32>(a), hn::Xor(c3[j], key1));
          c1[j] = b;
          c3[j] = a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
      }
      // Restores the order of memory: words (0, 1) and (2, 3) of each block are joined and
      // interleaved.
      for (uint64_t j = 0; j < 2; ++j) {
        const auto c01 = hn::Or(hn::And(c0[j], low), hn::ShiftLeft<32>(c1[j]));
        const auto c23 = hn::Or(hn::And(c2[j], low), hn::ShiftLeft<32>(c3[j]));
        hn::StoreInterleaved2(c01, c23, u64,
                              reinterpret_cast<uint64_t*>(words + 4 * (i + j * kStep)));
      }
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
