// Dropout by rows, for one instruction set.
#include "kernels/cpu/random_rows.h"
#include "kernels/cpu/simd.h"

#include "kernels/cpu/philox_simd.h"  // after simd.h

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Applies dropout to rows [begin, end), counted over all samples.
HWY_NOINLINE inline void DropRows(const DropoutRows& a, int64_t begin, int64_t end) {
  const F f;
  const hn::RebindToUnsigned<F> u;
  const hn::RebindToSigned<F> s;  // 24 bits fit a signed integer, which x86 compares faster
  const auto threshold = hn::Set(s, a.threshold);
  const V scale = hn::Set(f, a.scale);
  alignas(64) uint32_t words[kPhiloxWords + 16] = {};  // the last vector may exceed kPhiloxWords
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t sample = a.samples[row / a.rows];
    const int64_t first =
        (a.window.first_row + row % a.rows) * a.window.width + a.window.first_column;
    int64_t c = 0;
    while (c < a.d) {
      // A row may begin within a Philox block of four words; `lead` words are skipped.
      const int64_t element = first + c, lead = element % 4;
      PhiloxWords(a.key, element / 4, sample, words);
      const int64_t n = HWY_MIN(kPhiloxWords - lead, a.d - c);
      for (int64_t i = 0; i < n; i += kLanes) {
        // 24 bits per word, compared with p 2^24: exactly uniform(word) < p.
        const auto bits = hn::ShiftRight<8>(hn::LoadU(u, words + lead + i));
        const auto dropped = hn::RebindMask(f, hn::Lt(hn::BitCast(s, bits), threshold));
        const int64_t at = row * a.d + c + i, live = HWY_MIN(n - i, kLanes);
        const V x = hn::Mul(LoadSome(a.x, at, live), scale);
        StoreSome(hn::IfThenZeroElse(dropped, x), a.y, at, live);
        if (a.mask_out == nullptr) continue;
        uint8_t bits_of[8] = {};
        hn::StoreMaskBits(f, dropped, bits_of);
        for (int64_t k = 0; k < live; ++k)
          a.mask_out[at + k] = static_cast<uint8_t>(~(bits_of[k / 8] >> (k % 8)) & 1u);
      }
      c += n;
    }
  }
}

HWY_NOINLINE inline void DropBack(Source dy, const uint8_t* mask, float scale, Sink dx,
                                  int64_t begin, int64_t end) {
  const F f;
  alignas(64) float factors[kLanes];
  for (int64_t i = begin; i < end; i += kLanes) {
    const int64_t live = HWY_MIN(end - i, kLanes);
    for (int64_t k = 0; k < live; ++k) factors[k] = mask[i + k] != 0 ? scale : 0.0f;
    // Dropped elements become 0 even if they are not finite.
    const V factor = LoadSome({factors, DType::kF32}, 0, live);
    const V product = hn::Mul(LoadSome(dy, i, live), factor);
    StoreSome(hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(f)), product), dx, i, live);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
