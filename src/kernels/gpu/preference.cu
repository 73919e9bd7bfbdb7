// Losses of preferences on the GPU (kernels/preference.h). One block sums the tokens of a row; its
// threads' sums are added in a fixed order. One thread computes the losses of all pairs, which are
// few.
#include "kernels/preference.h"

#include "base/require.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/reduce.h"
#include "kernels/preference_pair.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kNumbers = 4;  // per row: [2, 2]
constexpr int64_t kFiguresOfRow = 3;

// Tokens of answers: `answers` is 0 for tokens of the chosen answer, 1 for those of the rejected
// one, negative for all others. `x` holds log-probabilities, or in pairs (sum of exponentials,
// logit): log p = logit - log(sum), whose derivatives are 1 and -1 / sum.
struct AnswerWork {
  bool log_probs;
  const float* x;
  const int32_t* answers;
  int64_t rows, tokens;
  double* sums;          // [rows, 2, 2]
  const double* d_sums;  // [rows, 2, 2]
  float* dx;
  __host__ __device__ int64_t count() const { return rows * tokens; }
  __device__ void operator()(int64_t i) const {
    const int32_t answer = answers[i];
    const double d = answer < 0 ? 0.0 : d_sums[i / tokens * kNumbers + 2 * answer];
    if (log_probs) {
      dx[2 * i] = static_cast<float>(-d / x[2 * i]);
      dx[2 * i + 1] = static_cast<float>(d);
    } else {
      dx[i] = static_cast<float>(d);
    }
  }
};

// Sums per row: log-probability and number of tokens of the chosen answer, then of the rejected
// one.
__global__ void answer_sums_kernel(const AnswerWork a) {
  const int64_t row = block_x();
  double sums[kNumbers] = {0, 0, 0, 0};
  for (int64_t t = threadIdx.x; t < a.tokens; t += kThreads) {
    const int64_t i = row * a.tokens + t;
    const int32_t answer = a.answers[i];
    if (answer < 0) continue;
    const double term =
        a.log_probs ? a.x[2 * i + 1] - log(static_cast<double>(a.x[2 * i])) : a.x[i];
    sums[0] += answer == 0 ? term : 0.0;
    sums[1] += answer == 0 ? 1.0 : 0.0;
    sums[2] += answer == 1 ? term : 0.0;
    sums[3] += answer == 1 ? 1.0 : 0.0;
  }
  block_sums(sums, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x != 0) return;
  for (int k = 0; k < kNumbers; ++k) a.sums[row * kNumbers + k] = sums[k];
}

struct PairWork {
  PreferenceForm form;
  const double *sums, *references, *loss_scale;
  double *report, *figures, *d_sums;
  int64_t rows;
};

// The derivatives of the counts (d[1], d[3]) are 0: an answer's length does not depend on weights.
__global__ void preference_loss_kernel(const PairWork a) {
  if (threadIdx.x != 0) return;
  const float scale = a.loss_scale == nullptr ? 1.0f : static_cast<float>(*a.loss_scale);
  for (int64_t b = 0; b < a.rows; ++b) {
    const PairLoss p = pair_loss(a.form, a.sums + b * kNumbers, a.references + b * kFiguresOfRow);
    if (a.d_sums != nullptr) {
      double* const d = a.d_sums + b * kNumbers;
      d[0] = scale * p.d_chosen;
      d[2] = scale * p.d_rejected;
      d[1] = d[3] = 0;
    }
    if (!p.counts || a.report == nullptr) continue;
    a.report[0] += p.loss;
    a.report[1] += 1;
    for (int i = 0; i < kPreferenceFigures; ++i) a.figures[i] += p.figures[i];
  }
}

template <class Args>
AnswerWork work_of(const Args& a) {
  require(a.answers.shape.rank() == 2, "expected the answers of positions as [B, T]");
  AnswerWork w = {};
  w.log_probs = a.log_probs;
  w.x = a.x.f32();
  w.answers = a.answers.template as<int32_t>();
  w.rows = a.answers.shape[0];
  w.tokens = a.answers.shape[1];
  return w;
}

}  // namespace
}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const AnswerSumsArgs& a) {
  AnswerWork w = work_of(a);
  w.sums = a.sums.as<double>();
  launch("answer_sums", answer_sums_kernel,
         {.x = w.rows, .threads = kThreads, .shared_bytes = kNumbers * kWarp * sizeof(double)},
         l.stream, w);
}

void launch(Gpu, const Launch& l, const AnswerSumsGradArgs& a) {
  AnswerWork w = work_of(a);
  w.d_sums = a.d_sums.as<double>();
  w.dx = a.dx.f32();
  launch_map("answer_sums_grad", l.stream, w);
}

void launch(Gpu, const Launch& l, const PreferenceLossArgs& a) {
  PairWork w = {};
  w.form = a.form;
  w.sums = a.sums.as<double>();
  w.references = a.references.as<double>();
  w.rows = a.sums.shape[0];
  w.report = a.report;
  w.figures = a.figures;
  w.loss_scale = a.loss_scale;
  w.d_sums = a.d_sums ? a.d_sums.as<double>() : nullptr;
  launch("preference_loss", preference_loss_kernel, {.x = 1, .threads = kWarp}, l.stream, w);
}

}  // namespace tessera::kernels
