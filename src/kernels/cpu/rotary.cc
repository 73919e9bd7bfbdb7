// Rotary position embedding on the CPU. Cosines and sines depend on position and pair only, so they
// are computed once per token and used by all of its heads; the gradient is the rotation by the
// negative angle.
#include "kernels/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#define HWY_TARGET_INCLUDE "kernels/cpu/rotary_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rotary_simd.h"

namespace tessera::kernels {

HWY_EXPORT(RotateRows);

namespace {

// The functions below round to float at every step, as the Hugging Face models do.

float power(const Rotary& r, int64_t i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(r.dims);
  return std::pow(static_cast<float>(r.base), exponent);
}

float llama3(float frequency, const RotaryScale& s) {
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

// Returns the pair (a fraction) that makes this number of turns over the original context.
double pair_of(double turns, const Rotary& r) {
  const auto dims = static_cast<double>(r.dims), context = static_cast<double>(r.scale.context);
  return dims * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(r.base));
}

float yarn(const Rotary& r, int64_t i) {
  double first = pair_of(r.scale.high, r), last = pair_of(r.scale.low, r);
  if (r.scale.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(r.dims - 1));
  if (first == last) last += 0.001;  // no division by zero
  const float ramp =
      (static_cast<float>(i) - static_cast<float>(first)) / static_cast<float>(last - first);
  const float kept = 1 - std::clamp(ramp, 0.0f, 1.0f);
  const float whole = 1.0f / power(r, i);
  const float divided = 1.0f / (static_cast<float>(r.scale.factor) * power(r, i));
  return divided * (1 - kept) + whole * kept;
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
      const double exact = static_cast<double>(angle), sine = std::sin(exact);
      table[n * 2 * half + i] = r.magnitude * static_cast<float>(std::cos(exact));
      table[n * 2 * half + half + i] = r.magnitude * static_cast<float>(r.inverse ? -sine : sine);
    }
  }
}

}  // namespace

float rotary_frequency(const Rotary& r, int64_t i) {
  const RotaryScale& s = r.scale;
  switch (s.kind) {
    case RotaryScaling::kUnscaled:
      return 1.0f / power(r, i);
    case RotaryScaling::kLinear:
      return 1.0f / power(r, i) / static_cast<float>(s.factor);
    case RotaryScaling::kLlama3:
      return llama3(1.0f / power(r, i), s);
    case RotaryScaling::kYarn:
      return yarn(r, i);
    case RotaryScaling::kLongrope:
      return 1.0f / (static_cast<float>(s.dividers[i]) * power(r, i));
  }
  CHECK(false, "rotary scaling {}", static_cast<int>(s.kind));
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
