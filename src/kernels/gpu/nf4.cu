// Dequantization of NF4 on the GPU (kernels/nf4.h): one thread block per row, and eight weights per
// thread at a time.
#include "kernels/nf4.h"

#include "base/require.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kValues = 16;
static_assert(kGroup == 8, "a group is 32 bits of codes");
constexpr int64_t kGroupsOfBlock = kNf4Block / kGroup;

struct Tables {
  float values[kValues] = {};
  Nf4ScaleMap map;
};
constexpr Tables make_tables() {
  Tables t;
  for (int i = 0; i < kValues; ++i) t.values[i] = kNf4Values[i];
  t.map = kNf4ScaleMap;
  return t;
}
__device__ const Tables kTables = make_tables();

struct DequantizeWork {
  const uint32_t* codes = nullptr;  // eight codes each
  const uint8_t* scales = nullptr;
  const float* levels = nullptr;
  Numbers w;
  PartColumns part;
  int64_t first = 0, row_blocks = 0, blocks = 0;  // `first`: the number of the first block
  bool vector = false;
};

__global__ void dequantize_nf4_kernel(const DequantizeWork a) {
  // Every thread of a warp may look up another value: in shared memory, each has its own bank.
  float* const values = shared_floats();
  const int thread = thread_of_block();
  if (thread < kValues) values[thread] = kTables.values[thread];
  __syncthreads();
  const int64_t row = block_x();
  const int64_t groups = a.blocks * kGroupsOfBlock, codes = row * groups;
  const int64_t to = a.part.column(row) * a.blocks * kNf4Block;
  const int64_t own = row * a.blocks, whole = a.first + row * a.row_blocks;
  for (int64_t g = thread; g < groups; g += kThreads) {
    const int64_t b = g / kGroupsOfBlock;
    const float factor = a.levels[1 + (whole + b) / kNf4ScaleBlock];
    // Without these functions, the compiler would fuse both operations and round once.
    const float scale =
        __fadd_rn(__fmul_rn(kTables.map.values[a.scales[own + b]], factor), a.levels[0]);
    const uint32_t packed = a.codes[codes + g];
    float out[kGroup];
    for (int k = 0; k < kGroup; ++k) {
      // The first byte is the lowest of the word, and its first code the high half.
      const int shift = k / 2 * 8 + (k % 2 == 0 ? 4 : 0);
      out[k] = __fmul_rn(values[packed >> shift & 15u], scale);
    }
    write_group(a.w, to + g * kGroup, kGroup, a.vector, out);
  }
}

}  // namespace
}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const DequantizeNf4Args& a) {
  const int64_t rows = a.part.groups * a.part.count;
  if (rows == 0) return;
  const int64_t blocks = a.scales.elements() / rows;
  require(a.codes.elements() == rows * blocks * (kNf4Block / 2) &&
              a.w.elements() == a.part.groups * a.part.width * blocks * kNf4Block,
          "NF4 codes and weights of different sizes");
  require(aligned(a.codes.data), "NF4 codes that are not aligned to 16 bytes");
  const int64_t row_blocks = a.row_blocks > 0 ? a.row_blocks : blocks;
  launch("dequantize_nf4", dequantize_nf4_kernel,
         {.x = rows, .threads = kThreads, .shared_bytes = kValues * sizeof(float)}, l.stream,
         DequantizeWork{a.codes.as<uint32_t>(), a.scales.as<uint8_t>(), a.levels.f32(),
                        numbers(a.w), a.part, a.first_row * row_blocks + a.first_block, row_blocks,
                        blocks, aligned(a.w.data)});
}

}  // namespace tessera::kernels
