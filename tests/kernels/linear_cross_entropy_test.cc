#include "kernels/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/cross_entropy.h"
#include "tensor/tensor.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

float value(uint64_t i) {
  const uint64_t h = (i + 1) * 0x9e3779b97f4a7c15ull;
  return static_cast<float>(static_cast<double>(h >> 11) * 0x1p-52 - 1.0);
}

// One problem in f64, with the operands as the kernel sees them (rounded to its type).
struct Problem {
  int64_t tokens, hidden, vocabulary;
  DType type;
  std::vector<double> x, w;
  std::vector<int32_t> labels;

  Problem(int64_t n, int64_t d, int64_t v, DType t) : tokens(n), hidden(d), vocabulary(v), type(t) {
    for (int64_t i = 0; i < n * d; ++i) x.push_back(rounded(2 * value(static_cast<uint64_t>(i))));
    for (int64_t i = 0; i < v * d; ++i) w.push_back(rounded(value(static_cast<uint64_t>(i) + 999)));
    for (int64_t i = 0; i < n; ++i) {
      labels.push_back(i % 5 == 3 ? kIgnoredLabel : static_cast<int32_t>((i * 7919) % v));
    }
    labels[static_cast<size_t>(n - 1)] = static_cast<int32_t>(v - 1);
  }
  double rounded(float f) const {
    return static_cast<double>(type == DType::kF32 ? f : static_cast<float>(BF16(f)));
  }
};

struct Answer {
  double loss = 0, counted = 0;
  std::vector<double> dx, dw;
};

Answer reference(const Problem& p, double scale, double cap = 0) {
  Answer a;
  a.dx.resize(p.x.size());
  a.dw.resize(p.w.size());
  const auto d = static_cast<size_t>(p.hidden), v = static_cast<size_t>(p.vocabulary);
  for (size_t n = 0; n < static_cast<size_t>(p.tokens); ++n) {
    if (p.labels[n] == kIgnoredLabel) continue;
    std::vector<double> z(v);
    for (size_t u = 0; u < v; ++u) {
      for (size_t k = 0; k < d; ++k) z[u] += p.x[n * d + k] * p.w[u * d + k];
    }
    std::vector<double> slope(v, 1);
    for (size_t u = 0; cap > 0 && u < v; ++u) {
      const double share = std::tanh(z[u] / cap);
      z[u] = cap * share;
      slope[u] = 1 - share * share;
    }
    const double most = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (const double q : z) sum += std::exp(q - most);
    const auto label = static_cast<size_t>(p.labels[n]);
    a.loss += most + std::log(sum) - z[label];
    a.counted += 1;
    for (size_t u = 0; u < v; ++u) {
      const double p_less_one = std::exp(z[u] - most) / sum - (u == label ? 1.0 : 0.0);
      const double dz = scale * p_less_one * slope[u];
      for (size_t k = 0; k < d; ++k) {
        a.dx[n * d + k] += dz * p.w[u * d + k];
        a.dw[u * d + k] += dz * p.x[n * d + k];
      }
    }
  }
  return a;
}

HostBuffer memory_of(const std::vector<double>& values, DType type) {
  HostBuffer b("operand", static_cast<int64_t>(values.size()) * size_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto f = static_cast<float>(values[i]);
    if (type == DType::kF32) reinterpret_cast<float*>(b.data())[i] = f;
    if (type == DType::kBF16) reinterpret_cast<BF16*>(b.data())[i] = BF16(f);
    if (type == DType::kF16) reinterpret_cast<F16*>(b.data())[i] = F16(f);
  }
  return b;
}

std::vector<double> values_of(const HostBuffer& b, DType type) {
  std::vector<double> values;
  for (int64_t i = 0; i < b.bytes() / size_of(type); ++i) {
    if (type == DType::kF32)
      values.push_back(static_cast<double>(reinterpret_cast<float*>(b.data())[i]));
    else if (type == DType::kF16)
      values.push_back(
          static_cast<double>(static_cast<float>(reinterpret_cast<F16*>(b.data())[i])));
    else
      values.push_back(
          static_cast<double>(static_cast<float>(reinterpret_cast<BF16*>(b.data())[i])));
  }
  return values;
}

// |got - want| / |want|, as vectors.
double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(difference / size);
}

struct Options {
  int64_t chunk = 0;
  float scale = 1.0f;
  int threads = 1;
  DType sums = DType::kF32;
  float soft_cap = 0;
};

Answer run(const Problem& p, const CpuFeatures& cpu, const Options& options) {
  const LinearCrossEntropy op({.tokens = p.tokens,
                               .hidden = p.hidden,
                               .vocabulary = p.vocabulary,
                               .dtype = p.type,
                               .sums = options.sums,
                               .soft_cap = options.soft_cap,
                               .chunk = options.chunk},
                              cpu, options.threads);
  const HostBuffer x = memory_of(p.x, p.type), w = memory_of(p.w, p.type);
  const HostBuffer dx("dx", x.bytes());
  // What is there must not be read.
  const HostBuffer dw = memory_of(std::vector<double>(p.w.size(), 6e4), options.sums);
  const HostBuffer workspace("workspace", op.workspace_bytes());
  double report[2] = {10, 20};
  LinearCrossEntropyOperands o{x.data(),  w.data(), p.labels.data(), report, dx.data(),
                               dw.data(), true,     options.scale};
  op.run({.workspace = workspace.data()}, o);
  return {report[0] - 10, report[1] - 20, values_of(dx, p.type), values_of(dw, options.sums)};
}

std::vector<CpuFeatures> machines() {
  const CpuFeatures cpu = read_cpu_features();
  CpuFeatures old = cpu;
  old.avx512 = old.avx512_bf16 = old.amx_bf16 = false;
  return {cpu, old};
}

TEST(LinearCrossEntropy, AgreesWithSumsInF64) {
  constexpr int64_t kSizes[][3] = {{1, 8, 5}, {3, 16, 2}, {37, 24, 131}, {65, 40, 2500}};
  for (const CpuFeatures& cpu : machines()) {
    for (const auto& [n, d, v] : kSizes) {
      for (const int64_t chunk : {int64_t{0}, int64_t{1}, int64_t{16}}) {
        const Problem p(n, d, v, DType::kF32);
        const int threads = n > 40 ? 2 : 1;
        const Answer want = reference(p, 0.5);
        const Answer got = run(p, cpu, {.chunk = chunk, .scale = 0.5f, .threads = threads});
        SCOPED_TRACE(fmt::format("{} tokens, {} wide, vocabulary {}, chunk {}", n, d, v, chunk));
        EXPECT_EQ(got.counted, want.counted);
        EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss + 1e-6);
        EXPECT_LT(distance(got.dx, want.dx), 3e-6);
        EXPECT_LT(distance(got.dw, want.dw), 3e-6);
      }
    }
  }
}

TEST(LinearCrossEntropy, SoftCapsBendLogits) {
  CpuFeatures cpu = read_cpu_features();
  cpu.avx512 = cpu.avx512_bf16 = cpu.amx_bf16 = false;
  for_every_target([&] {
    for (const float cap : {0.7f, 5.0f, 30.0f}) {
      const Problem p(13, 24, 131, DType::kF32);
      const Answer want = reference(p, 0.5, static_cast<double>(cap));
      const Answer got = run(p, cpu, {.chunk = 5, .scale = 0.5f, .soft_cap = cap});
      EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss) << cap;
      EXPECT_LT(distance(got.dx, want.dx), 3e-6) << cap;
      EXPECT_LT(distance(got.dw, want.dw), 3e-6) << cap;
    }
  });
}

TEST(LinearCrossEntropy, OnEveryInstructionSet) {
  CpuFeatures cpu = read_cpu_features();
  cpu.avx512 = cpu.avx512_bf16 = cpu.amx_bf16 = false;
  for_every_target([&] {
    const Problem p(13, 24, 131, DType::kF32);
    const Answer want = reference(p, 1.0), got = run(p, cpu, {.chunk = 5});
    EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss);
    EXPECT_LT(distance(got.dx, want.dx), 3e-6);
    EXPECT_LT(distance(got.dw, want.dw), 3e-6);
  });
}

TEST(LinearCrossEntropy, RoundsOnlyTheGradientsInBF16) {
  for (const CpuFeatures& cpu : machines()) {
    const Problem p(37, 24, 131, DType::kBF16);
    const Answer want = reference(p, 1.0), got = run(p, cpu, {.chunk = 16});
    EXPECT_EQ(got.counted, want.counted);
    EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);  // logits are f32
    EXPECT_LT(distance(got.dx, want.dx), 4e-3);
    EXPECT_LT(distance(got.dw, want.dw), 4e-3);
  }
}

TEST(LinearCrossEntropy, RoundsOnlyTheGradientsInF16) {
  for (const CpuFeatures& cpu : machines()) {
    const Problem p(37, 24, 131, DType::kF16);
    const Answer want = reference(p, 64.0), got = run(p, cpu, {.chunk = 16, .scale = 64});
    EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);
    EXPECT_LT(distance(got.dx, want.dx), 5e-4);
    EXPECT_LT(distance(got.dw, want.dw), 5e-4);
  }
}

// Each chunk rounds its addition: 3 chunks, a unit each at most.
TEST(LinearCrossEntropy, AddsToSumsOfSixteenBits) {
  for (const CpuFeatures& cpu : machines())
    for (const DType type : {DType::kBF16, DType::kF16}) {
      const Problem p(37, 24, 131, type);
      const Answer want = reference(p, 1.0), got = run(p, cpu, {.chunk = 16, .sums = type});
      const double unit = type == DType::kBF16 ? 0x1p-8 : 0x1p-11;
      EXPECT_LT(distance(got.dw, want.dw), 2 * unit);
      EXPECT_GT(distance(got.dw, want.dw), 0.1 * unit);
    }
}

// A frozen weight has no gradient; the others are the same bits.
TEST(LinearCrossEntropy, LeavesOutTheGradientOfAFrozenWeight) {
  const CpuFeatures cpu = read_cpu_features();
  const Problem p(19, 16, 50, DType::kF32);
  const LinearCrossEntropy op({.tokens = 19, .hidden = 16, .vocabulary = 50, .chunk = 8}, cpu, 1);
  const HostBuffer x = memory_of(p.x, p.type), w = memory_of(p.w, p.type), dx("dx", x.bytes());
  const HostBuffer workspace("workspace", op.workspace_bytes());
  double report[2] = {};
  op.run({.workspace = workspace.data()}, {x.data(), w.data(), p.labels.data(), report, dx.data()});
  EXPECT_EQ(values_of(dx, p.type), run(p, cpu, {.chunk = 8}).dx);
}

TEST(LinearCrossEntropy, AddsToAWeightGradientThatIsThere) {
  const CpuFeatures cpu = read_cpu_features();
  const Problem p(19, 16, 50, DType::kF32);
  const LinearCrossEntropy op({.tokens = 19, .hidden = 16, .vocabulary = 50, .chunk = 8}, cpu, 1);
  const HostBuffer x = memory_of(p.x, p.type), w = memory_of(p.w, p.type), dx("dx", x.bytes());
  const HostBuffer dw("dw", w.bytes()), workspace("workspace", op.workspace_bytes());
  double report[2] = {};
  LinearCrossEntropyOperands o{x.data(), w.data(),  p.labels.data(),
                               report,   dx.data(), reinterpret_cast<float*>(dw.data()),
                               true};
  op.run({.workspace = workspace.data()}, o);
  const std::vector<double> once = values_of(dw, DType::kF32);
  o.fresh = false;
  op.run({.workspace = workspace.data()}, o);
  const std::vector<double> twice = values_of(dw, DType::kF32);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-5);
}

TEST(LinearCrossEntropy, GradientIsTheSlopeOfTheLoss) {
  const CpuFeatures cpu = read_cpu_features();
  Problem p(11, 8, 29, DType::kF32);
  const Answer at = run(p, cpu, {.chunk = 4});
  const double step = 0x1p-7;
  for (const size_t i : {size_t{0}, size_t{17}, size_t{40}, size_t{87}}) {
    for (std::vector<double>* side : {&p.x, &p.w}) {
      const double kept = (*side)[i];
      (*side)[i] = kept + step;
      const double above = run(p, cpu, {.chunk = 4}).loss;
      (*side)[i] = kept - step;
      const double below = run(p, cpu, {.chunk = 4}).loss;
      (*side)[i] = kept;
      const double slope = (above - below) / (2 * step);
      const double gradient = (side == &p.x ? at.dx : at.dw)[i];
      EXPECT_NEAR(gradient, slope, 2e-3 + 2e-3 * std::abs(slope));
    }
  }
}

TEST(LinearCrossEntropy, WithoutGradientGivesTheSameLoss) {
  const CpuFeatures cpu = read_cpu_features();
  const Problem p(21, 16, 77, DType::kF32);
  const LinearCrossEntropy op(
      {.tokens = 21, .hidden = 16, .vocabulary = 77, .gradient = false, .chunk = 8}, cpu, 1);
  const HostBuffer x = memory_of(p.x, p.type), w = memory_of(p.w, p.type);
  const HostBuffer workspace("workspace", op.workspace_bytes());
  double report[2] = {10, 20};  // where run() begins too
  op.run({.workspace = workspace.data()},
         {.x = x.data(), .weight = w.data(), .labels = p.labels.data(), .report = report});
  EXPECT_EQ(report[0] - 10, run(p, cpu, {.chunk = 8}).loss);
}

TEST(LinearCrossEntropy, SameBitsWithAnyNumberOfThreads) {
  CpuFeatures cpu = read_cpu_features();
  cpu.avx512 = false;
  const Problem p(33, 16, 300, DType::kF32);
  const Answer one = run(p, cpu, {.chunk = 16, .threads = 1});
  const Answer three = run(p, cpu, {.chunk = 16, .threads = 3});
  EXPECT_EQ(one.loss, three.loss);
  EXPECT_EQ(one.dx, three.dx);
  EXPECT_EQ(one.dw, three.dw);
}

TEST(CrossEntropy, OfGivenLogits) {
  constexpr int64_t kRows = 7, kColumns = 45;
  for (const bool gradient : {false, true}) {
    std::vector<float> z, kept;
    for (uint64_t i = 0; i < kRows * kColumns; ++i) z.push_back(20 * value(i));
    kept = z;
    std::vector<int32_t> labels = {0, 44, 3, kIgnoredLabel, 20, 1, 43};
    double report[2] = {};
    compute(CrossEntropyArgs{.logits = {z.data(), DType::kF32, {kRows, kColumns}},
                             .labels = {labels.data(), DType::kI32, {kRows}},
                             .report = report,
                             .gradient = gradient},
            2);
    double loss = 0;
    for (size_t n = 0; n < kRows; ++n) {
      double sum = 0;
      for (size_t v = 0; v < kColumns; ++v)
        sum += std::exp(static_cast<double>(kept[n * kColumns + v]));
      for (size_t v = 0; v < kColumns; ++v) {
        const double was = static_cast<double>(kept[n * kColumns + v]);
        const bool here = labels[n] == static_cast<int32_t>(v);
        double want = std::exp(was) / sum - (here ? 1.0 : 0.0);
        if (labels[n] == kIgnoredLabel) want = 0;
        if (!gradient) want = was;
        EXPECT_NEAR(static_cast<double>(z[n * kColumns + v]), want, 1e-6 + 2e-7 * std::abs(want));
        if (here) loss += std::log(sum) - was;
      }
    }
    EXPECT_NEAR(report[0], loss, 1e-6 * loss);
    EXPECT_EQ(report[1], 6);
  }
}

TEST(CrossEntropy, ABadLogitIsSeenInTheLoss) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const size_t place : {size_t{0}, size_t{20}, size_t{36}}) {
      std::vector<float> z(37, 1.0f);
      z[place] = bad;
      int32_t label = 2;
      double report[2] = {};
      compute(CrossEntropyArgs{.logits = {z.data(), DType::kF32, {1, 37}},
                               .labels = {&label, DType::kI32, {1}},
                               .report = report});
      EXPECT_TRUE(std::isnan(report[0])) << bad << " at " << place << " gives " << report[0];
    }
  }
}

TEST(CrossEntropy, ALabelBeyondTheVocabularyIsCaught) {
  float z[3] = {};
  double report[2] = {};
  for (int32_t label : {3, -1}) {
    const CrossEntropyArgs args = {
        .logits = {z, DType::kF32, {1, 3}}, .labels = {&label, DType::kI32, {1}}, .report = report};
    EXPECT_DEATH(compute(args), "vocabulary of 3");
  }
}

}  // namespace
}  // namespace tessera::kernels
