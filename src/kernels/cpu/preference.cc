// Losses of preferences on the CPU. Rows of tokens are summed in parallel, each in its order; pairs
// are few, and are computed in order.
#include "kernels/preference.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cross_entropy.h"
#include "kernels/preference_pair.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kAnswers = 2, kColumns = 2, kReferenceColumns = 3;

// Calls f(t, answer) for the positions of row b that belong to an answer.
template <class F>
void each_position(const TensorView& answers, int64_t b, const F& f) {
  const int64_t tokens = answers.shape[1];
  const int32_t* const own = answers.as<int32_t>() + b * tokens;
  for (int64_t t = 0; t < tokens; ++t) {
    CHECK(own[t] < kAnswers, "answer {} of {}", own[t], kAnswers);
    if (own[t] >= 0) f(b * tokens + t, own[t]);
  }
}

int64_t rows_of(const TensorView& sums) { return sums.shape[0]; }

}  // namespace

void launch(Cpu, const Launch& options, const AnswerSumsArgs& a) {
  CHECK(
      a.answers.shape.rank() == 2 && a.sums.elements() == a.answers.shape[0] * kAnswers * kColumns,
      "answers {}, sums {}", to_string(a.answers.shape), to_string(a.sums.shape));
  const float* const x = a.x.f32();
  parallel_rows(
      rows_of(a.sums), a.answers.shape[1], options.threads, [&](int64_t from, int64_t to) {
        for (int64_t b = from; b < to; ++b) {
          double* const sums = a.sums.as<double>() + b * kAnswers * kColumns;
          std::fill_n(sums, kAnswers * kColumns, 0.0);
          each_position(a.answers, b, [&](int64_t i, int32_t answer) {
            const double term =
                a.log_probs ? x[2 * i + 1] - std::log(static_cast<double>(x[2 * i])) : x[i];
            sums[answer * kColumns] += term;
            sums[answer * kColumns + 1] += 1;
          });
        }
      });
}

void launch(Cpu, const Launch& options, const AnswerSumsGradArgs& a) {
  const float* const x = a.x.f32();
  float* const dx = a.dx.f32();
  const int64_t tokens = a.answers.shape[1], terms = a.log_probs ? 2 : 1;
  parallel_rows(rows_of(a.d_sums), tokens, options.threads, [&](int64_t from, int64_t to) {
    std::fill(dx + from * tokens * terms, dx + to * tokens * terms, 0.0f);
    for (int64_t b = from; b < to; ++b)
      each_position(a.answers, b, [&](int64_t i, int32_t answer) {
        const double d = a.d_sums.as<double>()[(b * kAnswers + answer) * kColumns];
        if (a.log_probs) {
          dx[2 * i] = static_cast<float>(-d / x[2 * i]);
          dx[2 * i + 1] = static_cast<float>(d);
        } else {
          dx[i] = static_cast<float>(d);
        }
      });
  });
}

void launch(Cpu, const Launch&, const PreferenceLossArgs& a) {
  const double scale = scaled_by(1.0f, a.loss_scale);
  for (int64_t b = 0; b < rows_of(a.sums); ++b) {
    const int64_t row = b * kAnswers * kColumns;
    const PairLoss p = pair_loss(a.form, a.sums.as<double>() + row,
                                 a.references.as<double>() + b * kReferenceColumns);
    if (a.d_sums) {
      double* const d = a.d_sums.as<double>() + row;
      std::fill_n(d, kAnswers * kColumns, 0.0);
      d[0] = scale * p.d_chosen;
      d[kColumns] = scale * p.d_rejected;
    }
    if (!p.counts || a.report == nullptr) continue;
    a.report[0] += p.loss;
    a.report[1] += 1;
    for (int i = 0; i < kPreferenceFigures; ++i) a.figures[i] += p.figures[i];
  }
}

}  // namespace tessera::kernels
