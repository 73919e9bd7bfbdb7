// Parts of a vocabulary, put together again, against the whole.
#include "kernels/vocab_parallel_cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/cross_entropy.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

struct Answer {
  std::vector<double> report = {0, 0, 0}, gradient;
};

Array labels_of(int64_t rows, int64_t vocabulary) {
  Array labels(Shape{rows}, DType::kI32);
  for (int64_t n = 0; n < rows; ++n)
    labels.set(n, static_cast<double>(n % 4 == 1 ? kIgnoredLabel : (n * 7919) % vocabulary));
  return labels;
}

Answer whole(const Array& logits, const Array& labels, float soft_cap = 0,
             const LossExtras& extras = {}) {
  Array z = logits;
  Answer a;
  CrossEntropyArgs c;
  c.logits = z;
  c.labels = labels;
  c.report = a.report.data();
  c.gradient = true;
  c.soft_cap = soft_cap;
  c.extras = extras;
  c.z_report = a.report.data() + 2;
  compute(c);
  for (int64_t i = 0; i < z.size(); ++i) a.gradient.push_back(z.at(i));
  return a;
}

// As `parts` ranks do it, each with ceil(V / parts) columns of which the last may be padding.
Answer divided(const Array& logits, const Array& labels, int64_t parts, float soft_cap = 0,
               const LossExtras& extras = {}) {
  const int64_t rows = logits.shape()[0], total = logits.shape()[1];
  const int64_t held = (total + parts - 1) / parts;
  std::vector<Array> z;
  std::vector<DividedLogits> own;
  Array max = Array::full({rows}, -std::numeric_limits<double>::infinity()), one(Shape{rows});
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t first = std::min(total, p * held),
                  columns = std::min(total, first + held) - first;
    z.push_back(Array::full({rows, held}, 1e30));  // padding that would spoil everything
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t v = 0; v < columns; ++v)
        z.back().set(n * held + v, logits.at(n * total + first + v));
  }
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t first = std::min(total, p * held);
    own.push_back(
        {z[static_cast<size_t>(p)], std::min(total, first + held) - first, first, total, soft_cap});
    compute(LogitsMaxArgs{own.back(), one});
    for (int64_t n = 0; n < rows; ++n) max.set(n, std::max(max.at(n), one.at(n)));
  }
  Array sums(Shape{rows, 2}), part(Shape{rows, 2});
  for (const DividedLogits& l : own) {
    compute(LogitsSumsArgs{l, max, labels, part});
    for (int64_t i = 0; i < sums.size(); ++i) sums.set(i, sums.at(i) + part.at(i));
  }
  Answer a;
  a.gradient.resize(static_cast<size_t>(rows * total));
  for (size_t p = 0; p < own.size(); ++p) {
    compute(VocabParallelCrossEntropyArgs{.logits = own[p],
                                          .max = max,
                                          .sums = sums,
                                          .labels = labels,
                                          .report = p == 0 ? a.report.data() : nullptr,
                                          .gradient = true,
                                          .extras = extras,
                                          .z_report = p == 0 ? a.report.data() + 2 : nullptr});
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t v = 0; v < held; ++v) {
        const double d = z[p].at(n * held + v);
        if (v < own[p].columns)
          a.gradient[static_cast<size_t>(n * total + own[p].first + v)] = d;
        else
          EXPECT_EQ(d, 0) << "padding of part " << p;
      }
  }
  return a;
}

TEST(VocabParallelCrossEntropy, PartsMakeUpTheWhole) {
  for (const int64_t vocabulary : {5, 53, 257, 5000})
    for (const int64_t parts : {1, 2, 3, 4}) {
      const Array logits = Array::random({9, vocabulary}, 3, DType::kF32, 6);
      const Array labels = labels_of(9, vocabulary);
      const Answer a = whole(logits, labels), b = divided(logits, labels, parts);
      EXPECT_NEAR(b.report[0], a.report[0], 1e-5 * a.report[0]) << vocabulary << " / " << parts;
      EXPECT_EQ(b.report[1], a.report[1]);
      for (size_t i = 0; i < a.gradient.size(); ++i)
        ASSERT_NEAR(b.gradient[i], a.gradient[i], 2e-6) << vocabulary << " / " << parts;
    }
}

TEST(VocabParallelCrossEntropy, PartsMakeUpTheWholeWithASoftCap) {
  for (const float cap : {0.7f, 30.0f})
    for (const int64_t parts : {1, 3}) {
      const Array logits = Array::random({9, 257}, 3, DType::kF32, 6);
      const Array labels = labels_of(9, 257);
      const Answer a = whole(logits, labels, cap), b = divided(logits, labels, parts, cap);
      EXPECT_NEAR(b.report[0], a.report[0], 1e-5 * a.report[0]) << cap << " / " << parts;
      for (size_t i = 0; i < a.gradient.size(); ++i)
        ASSERT_NEAR(b.gradient[i], a.gradient[i], 2e-6) << cap << " / " << parts;
    }
}

TEST(VocabParallelCrossEntropy, PartsMakeUpTheWholeWithExtraTerms) {
  for (const LossExtras& extras : {LossExtras{0.02f, 0.0f}, {0.0f, 0.1f}, {0.02f, 0.3f}})
    for (const float cap : {0.0f, 4.0f})
      for (const int64_t parts : {1, 3}) {
        const Array logits = Array::random({9, 257}, 3, DType::kF32, 6);
        const Array labels = labels_of(9, 257);
        const Answer a = whole(logits, labels, cap, extras);
        const Answer b = divided(logits, labels, parts, cap, extras);
        EXPECT_EQ(a.report[2] > 0, extras.z_loss > 0);
        EXPECT_NEAR(b.report[0], a.report[0], 1e-5 * a.report[0]) << cap << " / " << parts;
        EXPECT_NEAR(b.report[2], a.report[2], 1e-5 * a.report[2]) << cap << " / " << parts;
        for (size_t i = 0; i < a.gradient.size(); ++i)
          ASSERT_NEAR(b.gradient[i], a.gradient[i], 2e-6) << cap << " / " << parts;
      }
}

TEST(VocabParallelCrossEntropy, WhatIsNotFiniteShows) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Array logits = Array::random({4, 10}, 3);
    logits.set(2, bad);
    EXPECT_TRUE(std::isnan(divided(logits, labels_of(4, 10), 2).report[0])) << bad;
  }
}

TEST(VocabParallelCrossEntropyDeathTest, LabelsAreInTheVocabulary) {
  const Array logits = Array::random({4, 10}, 3);
  Array labels = labels_of(4, 10);
  labels.set(0, 10);
  EXPECT_DEATH(divided(logits, labels, 2), "label 10 of row 0 with a vocabulary of 10");
}

}  // namespace
}  // namespace tessera::kernels
