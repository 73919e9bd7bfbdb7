// Rotary position embedding on the CPU. Cosines and sines depend on position and pair only, so they
// are computed once per token and used by all of its heads; the gradient is the rotation by the
// negative angle.
#include "kernels/rotary.h"

#include <cmath>
#include <numbers>

#define HWY_TARGET_INCLUDE "kernels/cpu/rotary_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rotary_simd.h"

namespace tessera::kernels {

HWY_EXPORT(RotateRows);

namespace {

// Rounded to float at every step, as the Hugging Face models do.
float scaled(float frequency, const RotaryScale& s) {
  if (s.factor == 1) return frequency;
  const auto factor = static_cast<float>(s.factor), low = static_cast<float>(s.low);
  const auto high = static_cast<float>(s.high), context = static_cast<float>(s.context);
  // `length` is the wavelength in tokens of this pair; context / length is the number of turns that
  // it makes over the original context.
  const float length = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (length > context / low) return frequency / factor;
  if (length < context / high) return frequency;
  const float smooth = (context / length - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// Fills the table. Frequency and angle are rounded to float, as the Hugging Face models do: at
// position 2,000 the rounded and the exact angle differ by 1e-4, and weights are trained with the
// rounded one. Cosine and sine themselves are computed in double.
void fill_angles(const int32_t* positions, int64_t begin, int64_t end, const Rotary& r,
                 float* table) {
  const int64_t half = r.dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float frequency = rotary_frequency(r, i);
    for (int64_t n = begin; n < end; ++n) {
      const float angle = static_cast<float>(positions[n]) * frequency;
      table[n * 2 * half + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      const double sine = std::sin(static_cast<double>(angle));
      table[n * 2 * half + half + i] = static_cast<float>(r.inverse ? -sine : sine);
    }
  }
}

}  // namespace

float rotary_frequency(const Rotary& r, int64_t i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(r.dims);
  return scaled(1.0f / std::pow(static_cast<float>(r.base), exponent), r.scale);
}

int64_t workspace_bytes(Cpu, const RotaryArgs& a, int) {
  return a.positions.elements() * a.how.dims * static_cast<int64_t>(sizeof(float));
}

void launch(Cpu, const Launch& l, const RotaryArgs& args) {
  const TensorView &qkv = args.qkv, &positions = args.positions;
  const Rotary& r = args.how;
  CHECK(qkv.shape.rank() == 5 && positions.dtype == DType::kI32, "rotary of {} by {}",
        to_string(qkv.shape), name_of(positions.dtype));
  const int64_t tokens = qkv.shape[0] * qkv.shape[1];
  CHECK(positions.elements() == tokens, "rotary: {} positions for {} tokens", positions.elements(),
        tokens);
  CHECK(r.dims > 0 && r.dims % 2 == 0 && r.dims <= qkv.shape[4], "rotary turns {} of {} dimensions",
        r.dims, qkv.shape[4]);
  const auto table = static_cast<float*>(l.workspace);
  const RotaryRows a{.qkv = qkv,
                     .table = table,
                     .kv_heads = qkv.shape[2],
                     .slots = qkv.shape[3],
                     .d = qkv.shape[4],
                     .half = r.dims / 2};
  const auto rotate = &HWY_DYNAMIC_DISPATCH(RotateRows);
  // Each thread fills the rows of its own tokens and then uses them, so no barrier is needed.
  const int64_t columns = a.kv_heads * a.slots * r.dims;
  parallel_rows(tokens, columns, l.threads, [&](int64_t begin, int64_t end) {
    fill_angles(positions.as<int32_t>(), begin, end, r, table);
    rotate(a, begin, end);
  });
}

}  // namespace tessera::kernels
