// Dropout and its gradient (kernels/dropout.h). A mask is a function of (key, sample, element):
// eight adjacent elements need two or three Philox blocks, and no random state is stored.
// dropout_grad is for programs that store the mask.
#include "kernels/dropout.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

struct DropRows {
  Groups groups;
  Numbers x, y;
  const int64_t* samples = nullptr;
  int64_t rows_of_sample = 1;
  MaskKey key;
  uint8_t* kept = nullptr;  // [rows, columns]  written: 1 for kept elements; or none
  float probability = 0, scale = 1;
  int64_t first_row = 0, first_column = 0, width = 0;
};

struct DropWork {
  DropRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = a.groups.cursor(i);
    const int64_t sample = a.samples[p.row / a.rows_of_sample];
    const int64_t row = a.first_row + p.row % a.rows_of_sample;
    const int64_t element = row * a.width + a.first_column + p.column;
    // The index is that of the element in the full sample, even if this rank has only some of the
    // rows or columns, so the mask is the same for all layouts.
    PhiloxWords words(value_of(a.key), sample);
    float x[kGroup];
    read_group(a.x, p.at, p.n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) {
      if (k >= p.n) break;
      const bool dropped = is_dropped(words.of(element + k), a.probability);
      x[k] = dropped ? 0.0f : x[k] * a.scale;
      if (a.kept != nullptr) a.kept[p.at + k] = dropped ? 0 : 1;
    }
    write_group(a.y, p.at, p.n, a.groups.vector, x);
  }
};

// dx = dy / (1 - p) where the stored mask is 1. Dropped elements are 0 even if dy is not finite.
struct DropGradWork {
  DropRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = a.groups.cursor(i);
    float x[kGroup];
    read_group(a.x, p.at, p.n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k)
      if (k < p.n) x[k] = a.kept[p.at + k] != 0 ? x[k] * a.scale : 0.0f;
    write_group(a.y, p.at, p.n, a.groups.vector, x);
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const DropoutArgs& a) {
  View x = a.x, y = a.y, samples = a.samples;
  const Dropout& d = a.dropout;
  const DropoutWindow& w = a.window;
  require(x.shape.rank() == 3 && y.elements() == x.elements() && samples.elements() == x.shape[0],
          "dropout needs x [B, T, F], y with the same number of elements, and B samples");
  launch_map("dropout", l.stream,
             DropWork{{.groups = groups_of(rows_of(x), columns_of(x), x, y),
                       .x = numbers(x),
                       .y = numbers(y),
                       .samples = samples.as<int64_t>(),
                       .rows_of_sample = x.shape[1],
                       .key = {d.key, d.seed, d.step, d.layer},
                       .kept = a.mask.as<uint8_t>(),
                       .probability = d.probability,
                       .scale = 1.0f / (1.0f - d.probability),
                       .first_row = w.first_row,
                       .first_column = w.first_column,
                       .width = w.width == 0 ? columns_of(x) : w.width}});
}

void launch(Gpu, const Launch& l, const DropoutGradArgs& a) {
  DropRows rows;
  rows.groups = groups_of(1, a.dx.elements(), a.dy, a.dx);
  rows.x = numbers(a.dy);
  rows.y = numbers(a.dx);
  rows.kept = a.mask.as<uint8_t>();
  rows.scale = 1.0f / (1.0f - a.probability);
  launch_map("dropout_grad", l.stream, DropGradWork{rows});
}

}  // namespace tessera::kernels
