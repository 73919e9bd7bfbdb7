// Initializes a shard of a weight. Each element is a function of (key, global index), so every
// layout gives the same weights; the shard is traversed in contiguous runs of global indices.
#include "runtime/initialize.h"

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/initialize.h"

namespace tessera::runtime {
namespace {

int64_t extent(const GlobalBox& box, int d) { return box.end[d] - box.begin[d]; }

TensorView range(const TensorView& t, int64_t first, int64_t elements) {
  return {t.as<std::byte>() + first * size_of(t.dtype), t.dtype, {elements}};
}

}  // namespace

// Example: rows [2, 4), columns [3, 6) of [8, 8] are, with cut = 1, the runs
//
//   global 19-21   local 0-2
//   global 27-29   local 3-5
void each_run(const Shape& global, const Shape& local, const GlobalBox& box,
              const std::function<void(const ContiguousRange&)>& visit) {
  const int rank = global.rank();
  CHECK(local.rank() == rank && std::ssize(box.begin) == rank && std::ssize(box.end) == rank,
        "a box of {} dimensions in {} and {}", box.begin.size(), to_string(global),
        to_string(local));
  // Dimensions after `cut` are complete on this rank, so rows of dimension `cut` are contiguous:
  // each run is as long as possible.
  int cut = rank - 1;
  while (cut >= 0 && extent(box, cut) == global[cut] && local[cut] == global[cut]) --cut;
  const int64_t row = global.product(cut + 1, rank);
  ContiguousRange s = {0, 0, row};
  if (cut < 0) return visit(s);
  s.elements = extent(box, cut) * row;
  int64_t count = s.elements > 0 ? 1 : 0;  // number of runs
  for (int d = 0; d < cut; ++d) count *= extent(box, d);
  for (int64_t i = 0; i < count; ++i) {
    // The run's index as a mixed-radix number over the dimensions before `cut`, innermost first.
    int64_t rest = i, global_step = row * global[cut], local_step = row * local[cut];
    s.global = box.begin[cut] * row;
    s.local = 0;
    for (int d = cut - 1; d >= 0; --d) {
      const int64_t at = rest % extent(box, d);
      rest /= extent(box, d);
      s.global += (box.begin[d] + at) * global_step;
      s.local += at * local_step;
      global_step *= global[d];
      local_step *= local[d];
    }
    visit(s);
  }
}

void initialize_part(const TensorView& part, const Shape& global, const GlobalBox& box,
                     const Initial& initial, uint64_t key, int threads) {
  int64_t elements = 1;
  for (int d = 0; d < global.rank(); ++d) elements *= extent(box, d);
  // A padded shard: elements beyond the weight are zero.
  if (elements < part.elements())
    kernels::launch(kernels::Cpu(), {.threads = threads}, kernels::ClearArgs{part});
  each_run(global, part.shape, box, [&](const ContiguousRange& s) {
    const TensorView y = range(part, s.local, s.elements);
    if (initial.std > 0)
      kernels::initialize_normal(
          y, {.key = key, .first = s.global, .mean = 0, .deviation = initial.std}, threads);
    else
      kernels::fill(y, static_cast<float>(initial.constant), threads);
  });
}

}  // namespace tessera::runtime
