// The gradient of attention sinks on the GPU (kernels/attention.h): one block per head. Each thread
// sums its share of the rows, and the sums of the threads are added in a fixed order.
#include <cmath>

#include "kernels/attention.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256;

struct SinkWork {
  Numbers sinks, out, d_out, d_sinks;
  const float* lse = nullptr;
  int64_t samples = 0, rows = 0, heads = 0, d = 0;
  bool by_head = false;
};

// A warp sums every eighth row; its lanes divide the elements of the row.
__global__ void sinks_grad_kernel(const SinkWork a) {
  const int64_t head = block_x();
  const float sink = read(a.sinks, head);
  double total[1] = {0};
  for (int64_t n = warp_index(); n < a.samples * a.rows; n += kThreads / kWarp) {
    const int64_t b = n / a.rows, row = (b * a.heads + head) * a.rows + n % a.rows;
    const int64_t at = (a.by_head ? row : n * a.heads + head) * a.d;
    const float p = expf(sink - a.lse[row]);
    float dot = 0;
    for (int64_t c = lane_index(); c < a.d; c += kWarp)
      dot += read(a.out, at + c) * read(a.d_out, at + c);
    total[0] += static_cast<double>(p * dot);
  }
  block_sums(total, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) write(a.d_sinks, head, read(a.d_sinks, head) - rounded(total[0]));
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const SinksGradArgs& a) {
  const Shape& s = a.out.shape;
  const int64_t rows = s[a.by_head ? 2 : 1], heads = s[a.by_head ? 1 : 2];
  launch("sinks_grad", sinks_grad_kernel,
         {.x = heads, .threads = kThreads, .shared_bytes = kWarp * sizeof(double)}, l.stream,
         SinkWork{numbers(a.sinks), numbers(a.out), numbers(a.d_out), numbers(a.d_sinks),
                  a.lse.f32(), s[0], rows, heads, s[3], a.by_head});
}

}  // namespace tessera::kernels
