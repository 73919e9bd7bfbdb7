// Launchers of what a step does to gradients and weights. Numbers that only the device knows when
// they run (the step, the clipping) are read where they lie.
#pragma once

#include "kernels/cuda/groups.h"
#include "tensor/stream.h"

namespace tessera::kernels::cuda {

enum class UpdateKind : uint8_t { kAdamW, kLion, kSgd };

struct UpdateSpan {  // UpdateRange of kernels/update.h
  int64_t begin = 0, end = 0;
  uint64_t key = 0;
  int64_t element = 0;
  bool decay = true;
};
constexpr int kMostSpans = 32;  // of one launch

struct UpdateWork {
  UpdateKind kind = UpdateKind::kAdamW;
  Numbers weights, m, v, gradient, weights_low;  // no data: none
  bool stochastic = false;
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  const double *learning_rate = nullptr, *step = nullptr, *scale = nullptr, *skip = nullptr;
  int spans = 0;
  UpdateSpan span[kMostSpans];
};
void launch_update(const UpdateWork& a, Stream s);

// *sum += sum of squares; `partials` has squares_partials(n) doubles.
struct SquaresWork {
  Numbers x;
  int64_t n = 0;
  bool vector = false;
  double *partials = nullptr, *sum = nullptr;
};
constexpr int64_t kSquaresOfBlock = 16 * 1024;  // elements of a partial sum
int64_t squares_partials(int64_t n);
void launch_squares(const SquaresWork& a, Stream s);

// *sum += partials[0] + … in a fixed order.
struct JoinWork {
  const double* partials = nullptr;
  int64_t count = 0;
  double* sum = nullptr;
};
void launch_join(const JoinWork& a, Stream s);

// *first = the number of the first element that is not finite, or -1; `firsts` has
// squares_partials(n) numbers.
struct SearchWork {
  Numbers x;
  int64_t n = 0;
  bool vector = false;
  int64_t *firsts = nullptr, *first = nullptr;
};
void launch_search(const SearchWork& a, Stream s);

struct ClipWork {  // Clip of kernels/clip.h
  const double *tokens = nullptr, *squares = nullptr, *loss = nullptr;
  const double *loss_scale = nullptr, *skip_before = nullptr;
  double *norm = nullptr, *scale = nullptr, *skip = nullptr;
  double limit = 0;
};
void launch_clip(const ClipWork& a, Stream s);

}  // namespace tessera::kernels::cuda
