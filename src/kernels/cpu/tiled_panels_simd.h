// Panels of operands for TiledProduct. Compiled once per instruction set, so it has no include
// guard.
#include <algorithm>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/tiled_product_parts.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

constexpr int kColumns = 2 * hn::MaxLanes(F());
// Registers: 2 kRows sums, two vectors of B and one of A, in all 15 of 16 with AVX2 and 31 of 32
// with AVX-512.
constexpr int kRows = kLanes >= 16 ? 14 : 6;

inline RegisterTile register_tile() { return {kRows, kColumns}; }

// Returns an element as it is stored in a panel: widened, or its bits.
template <class T>
float in_panel(T x) {
  return as_f32(x);
}
inline uint16_t in_panel(uint16_t bits) { return bits; }

// Copies `count` lines of `depth` elements into one panel [depth, width]; missing lines become 0.
// Element (line, p) is at source[line * line_stride + p * step].
template <int width, class From, class To>
void fill_panel(const From* HWY_RESTRICT source, int64_t line_stride, int64_t step, int64_t count,
                int64_t depth, To* HWY_RESTRICT panel) {
  if (count < width) {
    std::fill_n(panel, depth * width, To(0.0f));
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t line = 0; line < count; ++line) {
        panel[p * width + line] = in_panel(source[line * line_stride + p * step]);
      }
    }
  } else if (line_stride == 1) {
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t line = 0; line < width; ++line) {
        panel[p * width + line] = in_panel(source[p * step + line]);
      }
    }
  } else {
    constexpr int64_t kStrip = 16;  // one cache line of every source line at a time
    for (int64_t p0 = 0; p0 < depth; p0 += kStrip) {
      const int64_t p1 = std::min(depth, p0 + kStrip);
      for (int64_t line = 0; line < width; ++line) {
        const From* from = source + line * line_stride;
        for (int64_t p = p0; p < p1; ++p) panel[p * width + line] = in_panel(from[p * step]);
      }
    }
  }
}

template <int width, class From, class To>
void fill_panels(const From* source, int64_t line_stride, int64_t step, int64_t lines,
                 int64_t depth, To* panels) {
  for (int64_t first = 0; first < lines; first += width) {
    fill_panel<width>(source + first * line_stride, line_stride, step,
                      std::min<int64_t>(width, lines - first), depth, panels + first * depth);
  }
}

// Writes a panel of B in its own type, as pack() stores it.
inline void pack_panels_of(const PanelSource& source, int64_t first, int64_t lines, int64_t depth,
                           void* panel) {
  const int64_t offset = first * source.line_stride;
  if (source.dtype == DType::kF32) {
    fill_panels<kColumns>(source.at<float>(offset), source.line_stride, source.step, lines, depth,
                          static_cast<float*>(panel));
  } else {  // copies bits, for both 16-bit types: the padding 0 has the same bits in both
    fill_panels<kColumns>(source.at<uint16_t>(offset), source.line_stride, source.step, lines,
                          depth, static_cast<uint16_t*>(panel));
  }
}

// Writes lines [first, first + lines) × elements [p, p + depth) of a source as f32 panels.
template <int width>
void widen_panels(const PanelSource& source, int64_t first, int64_t lines, int64_t p, int64_t depth,
                  float* panels) {
  const int64_t offset = first * source.line_stride + p * source.step;
  if (source.dtype == DType::kF32) {
    fill_panels<width>(source.at<float>(offset), source.line_stride, source.step, lines, depth,
                       panels);
  } else if (source.dtype == DType::kBF16) {
    fill_panels<width>(source.at<BF16>(offset), source.line_stride, source.step, lines, depth,
                       panels);
  } else {
    fill_panels<width>(source.at<F16>(offset), source.line_stride, source.step, lines, depth,
                       panels);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
