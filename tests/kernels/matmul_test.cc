#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

// Elements that the product may not touch stand between the rows; they hold this.
constexpr float kCanary = 7777.0f;
// Bytes after a workspace that must stay zero.
constexpr int64_t kGuard = 4096;

// A matrix as memory, of any type.
struct Matrix {
  DType type;
  HostBuffer memory;
  Matrix(int64_t elements, DType t) : type(t), memory("matrix", elements * size_of(t) + 64) {}
  double get(int64_t i) const {
    if (type == DType::kF32) return static_cast<double>(reinterpret_cast<float*>(memory.data())[i]);
    if (type == DType::kF16)
      return static_cast<double>(static_cast<float>(reinterpret_cast<F16*>(memory.data())[i]));
    return static_cast<double>(static_cast<float>(reinterpret_cast<BF16*>(memory.data())[i]));
  }
  void set(int64_t i, float x) {
    if (type == DType::kF32) reinterpret_cast<float*>(memory.data())[i] = x;
    if (type == DType::kBF16) reinterpret_cast<BF16*>(memory.data())[i] = BF16(x);
    if (type == DType::kF16) reinterpret_cast<F16*>(memory.data())[i] = F16(x);
  }
};

// A cheap stream of numbers in (-1, 1) that does not repeat within a test.
float value(uint64_t i) {
  const uint64_t h = (i + 1) * 0x9e3779b97f4a7c15ull;
  return static_cast<float>(static_cast<double>(h >> 11) * 0x1p-52 - 1.0);
}

struct Extents {
  int64_t elements_a, elements_b, elements_c, lda, ldb, ldc, stride_a, stride_b, stride_c;
};

Extents extents(const MatmulShape& s) {
  Extents e{};
  e.lda = s.lda ? s.lda : (s.transpose_a ? s.m : s.k);
  e.ldb = s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n);
  e.ldc = s.ldc ? s.ldc : s.n;
  e.stride_a = s.stride_a ? s.stride_a : e.lda * (s.transpose_a ? s.k : s.m);
  e.stride_b = s.stride_b ? s.stride_b : e.ldb * (s.transpose_b ? s.n : s.k);
  e.stride_c = s.stride_c ? s.stride_c : e.ldc * s.m;
  // Interleaved products overlap in memory: the last one's end is the end of all.
  e.elements_a = e.stride_a * (s.batch - 1) + e.lda * (s.transpose_a ? s.k : s.m);
  e.elements_b = e.stride_b * (s.batch - 1) + e.ldb * (s.transpose_b ? s.n : s.k);
  e.elements_c = e.stride_c * (s.batch - 1) + e.ldc * s.m;
  return e;
}

// Runs the product and compares every element of C's memory with a sum in f64. The bound is that of
// a sum of k rounded products in any order, with room for the extra roundings of a blocked sum.
void expect_right(const MatmulShape& s, const CpuFeatures& cpu, bool fresh = false) {
  SCOPED_TRACE(fmt::format(
      "m {} n {} k {} ta {} tb {} add {} batch {} lda {} ldb {} ldc {} {}x{}>{}"
      " packed {} fresh {} avx512 {} bf16 {}",
      s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.accumulate, s.batch, s.lda, s.ldb, s.ldc,
      name_of(s.a), name_of(s.b), name_of(s.c), s.packed_b, fresh, cpu.avx512, cpu.avx512_bf16));
  const Extents e = extents(s);
  Matrix a(e.elements_a, s.a), b(e.elements_b, s.b), c(e.elements_c, s.c);
  for (int64_t i = 0; i < e.elements_a; ++i) a.set(i, value(static_cast<uint64_t>(i)));
  for (int64_t i = 0; i < e.elements_b; ++i) b.set(i, value(static_cast<uint64_t>(i) + 1000003));
  for (int64_t i = 0; i < e.elements_c; ++i) c.set(i, kCanary);
  std::vector<char> written(static_cast<size_t>(e.elements_c), 0);
  std::vector<double> before(static_cast<size_t>(e.elements_c), 0.0);
  for (int64_t p = 0; p < s.batch; ++p) {
    for (int64_t i = 0; i < s.m * s.n; ++i) {
      const int64_t at = p * e.stride_c + i / s.n * e.ldc + i % s.n;
      written[static_cast<size_t>(at)] = 1;
      if (!s.accumulate) continue;
      c.set(at, value(static_cast<uint64_t>(at) + 77));
      before[static_cast<size_t>(at)] = fresh ? 0.0 : c.get(at);
    }
  }
  // Two threads where there is work for them: on a busy machine teams are slow to meet.
  const Matmul product(s, cpu, s.m * s.n * s.k > 100'000 ? 2 : 1);
  const HostBuffer workspace("workspace", product.workspace_bytes() + kGuard);
  const HostBuffer packed("packed", product.packed_bytes() + kGuard);
  const void* operand = b.memory.data();
  if (product.packed_bytes() > 0) {
    product.pack(b.memory.data(), packed.data());
    operand = packed.data();
  }
  product.run({.workspace = workspace.data()}, {a.memory.data(), operand, c.memory.data(), fresh});
  for (int64_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(workspace.data()[product.workspace_bytes() + i], std::byte{0}) << "beyond workspace";
    ASSERT_EQ(packed.data()[product.packed_bytes() + i], std::byte{0}) << "beyond packed B";
  }
  const double unit = s.c == DType::kBF16 ? 0x1p-8 : (s.c == DType::kF16 ? 0x1p-11 : 0.0);
  const double least = s.c == DType::kF16 ? 0x1p-25 : 0.0;  // half of the unit of small halves
  for (int64_t p = 0; p < s.batch; ++p) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        const int64_t at = p * e.stride_c + i * e.ldc + j;
        double want = 0, size = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const double x = a.get(p * e.stride_a + (s.transpose_a ? k * e.lda + i : i * e.lda + k));
          const double y = b.get(p * e.stride_b + (s.transpose_b ? j * e.ldb + k : k * e.ldb + j));
          want += x * y;
          size += std::abs(x * y);
        }
        want = want * static_cast<double>(s.alpha) + before[static_cast<size_t>(at)];
        size = size * std::abs(static_cast<double>(s.alpha)) +
               std::abs(before[static_cast<size_t>(at)]);
        const double bound = size * 0x1p-24 * (std::sqrt(static_cast<double>(s.k)) + 4) * 2 +
                             std::abs(want) * unit + least;
        ASSERT_NEAR(c.get(at), want, bound) << "at [" << p << ", " << i << ", " << j << "]";
      }
    }
  }
  const double canary = static_cast<double>(s.c == DType::kF32 ? kCanary : float(BF16(kCanary)));
  for (int64_t i = 0; i < e.elements_c; ++i) {
    if (!written[static_cast<size_t>(i)]) {
      ASSERT_EQ(c.get(i), canary) << "C was written between its rows, at element " << i;
    }
  }
}

// This machine as it is, and as if it had only AVX2, where our own product does everything.
std::vector<CpuFeatures> machines() {
  const CpuFeatures cpu = read_cpu_features();
  CpuFeatures old = cpu;
  old.avx512 = old.avx512_bf16 = old.amx_bf16 = false;
  return {cpu, old};
}

TEST(Matmul, AllLayoutsTypesAndOddSizes) {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},    {1, 64, 33},  {7, 5, 3},
                                   {3, 40, 200}, {37, 51, 70}, {64, 96, 128}};
  for (const CpuFeatures& cpu : machines()) {
    for (const auto& [m, n, k] : kSizes) {
      for (int layout = 0; layout < 4; ++layout) {
        for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
          MatmulShape s{.m = m, .n = n, .k = k, .a = type, .b = type, .c = type};
          s.transpose_a = (layout & 1) != 0;
          s.transpose_b = (layout & 2) != 0;
          expect_right(s, cpu);
          s.packed_b = true;
          expect_right(s, cpu);
          s.c = DType::kF32;
          s.accumulate = true;
          expect_right(s, cpu);
          expect_right(s, cpu, /*fresh=*/true);
          s.c = type;
          expect_right(s, cpu);
          expect_right(s, cpu, /*fresh=*/true);
        }
      }
    }
  }
}

TEST(Matmul, MoreThanOneBlockInEveryDirection) {
  for (const CpuFeatures& real : machines()) {
    CpuFeatures cpu = real;
    cpu.l2_bytes = 64 << 10;  // small blocks, so that a small product has several
    cpu.l3_bytes = 1 << 20;
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      MatmulShape s{
          .m = 150, .n = 90, .k = 901, .transpose_b = true, .a = type, .b = type, .c = type};
      expect_right(s, cpu);
      s.packed_b = true;
      expect_right(s, cpu);
      s = {.m = 1100,
           .n = 40,
           .k = 65,
           .transpose_a = true,
           .accumulate = true,
           .a = type,
           .b = type};
      expect_right(s, cpu);
      expect_right(s, cpu, /*fresh=*/true);
      s.c = type;
      s.k = 700;  // several slices of k, rounded once
      expect_right(s, cpu);
      expect_right(s, cpu, /*fresh=*/true);
    }
  }
}

TEST(Matmul, SlicesOfPackedTensors) {
  // q · k^T of 3 heads inside qkv [T, heads, 3, 16]: rows 3·3·16 apart, heads 3·16 apart.
  for (const CpuFeatures& cpu : machines()) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      MatmulShape s{.m = 20, .n = 20, .k = 16, .transpose_b = true, .a = type, .b = type};
      s.batch = 3;
      s.lda = s.ldb = 144;
      s.stride_a = s.stride_b = 48;
      s.alpha = 0.25f;
      expect_right(s, cpu);
      s.ldc = 25;
      expect_right(s, cpu);
      s.accumulate = true;
      expect_right(s, cpu);
    }
  }
}

TEST(Matmul, DenseBatch) {
  for (const CpuFeatures& cpu : machines()) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      expect_right({.m = 9, .n = 17, .k = 33, .a = type, .b = type, .c = type, .batch = 5}, cpu);
    }
  }
}

TEST(Matmul, OurOwnProductOnEveryInstructionSet) {
  CpuFeatures cpu = read_cpu_features();
  cpu.avx512 = cpu.avx512_bf16 = cpu.amx_bf16 = false;
  cpu.l2_bytes = 64 << 10;
  for_every_target([&] {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const auto& [m, n, k] :
           {std::array<int64_t, 3>{2, 30, 70}, {15, 29, 75}, {29, 50, 400}}) {
        for (int layout = 0; layout < 4; ++layout) {
          MatmulShape s{.m = m, .n = n, .k = k, .a = type, .b = type, .c = type};
          s.transpose_a = (layout & 1) != 0;
          s.transpose_b = (layout & 2) != 0;
          expect_right(s, cpu);
          s.packed_b = true;
          expect_right(s, cpu);
        }
      }
    }
  });
}

TEST(Matmul, RoundsTheSameWithoutBF16Products) {
  CpuFeatures cpu = read_cpu_features();
  cpu.avx512_bf16 = cpu.amx_bf16 = false;
  for (const int64_t m : {1, 3, 45}) {
    MatmulShape s{.m = m, .n = 31, .k = 64, .transpose_b = true};
    s.a = s.b = s.c = DType::kBF16;
    expect_right(s, cpu);
    s.packed_b = true;
    expect_right(s, cpu);
  }
}

TEST(Matmul, AlphaOfADenseProduct) {
  for (const CpuFeatures& cpu : machines()) {
    MatmulShape s{.m = 33, .n = 18, .k = 40};
    s.alpha = -1.5f;
    expect_right(s, cpu);
    s.accumulate = true;
    expect_right(s, cpu);
    expect_right(s, cpu, /*fresh=*/true);
  }
}

TEST(Matmul, OperandsOfTwoTypes) {
  expect_right({.m = 9, .n = 17, .k = 33, .b = DType::kBF16}, read_cpu_features());
}

TEST(Matmul, SameBitsWithAnyNumberOfThreads) {
  // On one machine, for our own product: threads share no sums.
  CpuFeatures cpu = read_cpu_features();
  cpu.avx512 = false;
  constexpr int64_t kM = 61, kN = 130, kK = 500;
  Matrix a(kM * kK, DType::kF32), b(kK * kN, DType::kF32);
  for (int64_t i = 0; i < kM * kK; ++i) a.set(i, value(static_cast<uint64_t>(i)));
  for (int64_t i = 0; i < kK * kN; ++i) b.set(i, value(static_cast<uint64_t>(i) + 5));
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2, 3, 7}) {
    Matrix c(kM * kN, DType::kF32);
    const Matmul product({.m = kM, .n = kN, .k = kK}, cpu, threads);
    const HostBuffer workspace("workspace", product.workspace_bytes());
    product.run({.workspace = workspace.data()},
                {a.memory.data(), b.memory.data(), c.memory.data()});
    std::vector<double> all;
    for (int64_t i = 0; i < kM * kN; ++i) all.push_back(c.get(i));
    results.push_back(all);
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

// The GEMM of few rows scales, adds to C, and reads rows with a stride above k.
TEST(Matmul, FewRowsAddAndScale) {
  const CpuFeatures cpu = read_cpu_features();
  for_every_target([&] {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
      for (const int64_t m : {1, 2, 3, 5, 8, 9, 16})
        for (const int64_t n : {1, 2, 7, 19}) {
          MatmulShape s{.m = m, .n = n, .k = 37, .transpose_b = true, .a = type, .b = type};
          s.alpha = -0.75f;
          s.accumulate = true;
          expect_right(s, cpu);
          s.lda = 41;
          s.ldb = 50;
          s.ldc = n + 3;
          expect_right(s, cpu);
        }
  });
}

// A row's bits do not depend on how many other rows there are: a generated text does not depend on
// the texts that are generated with it.
TEST(Matmul, ARowOfFewHasTheSameBitsInAnyNumberOfRows) {
  const CpuFeatures cpu = read_cpu_features();
  const int64_t n = 45, k = 203, most = 16;
  for_every_target([&] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Array a = Array::random({most, k}, 1, t), b = Array::random({n, k}, 2, t);
      const auto rows = [&](int64_t m) {
        const Array c({m, n});
        const Matmul product({.m = m, .n = n, .k = k, .transpose_b = true, .a = t, .b = t}, cpu, 2);
        Workspace workspace(product.workspace_bytes());
        product.run({.workspace = workspace, .threads = 2}, {a.data(), b.data(), c.data()});
        return c;
      };
      const Array all = rows(most);
      for (int64_t m = 1; m < most; ++m) {
        const Array some = rows(m);
        for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(some.at(i), all.at(i)) << m << " " << i;
      }
    }
  });
}

TEST(Matmul, RefusesWhatMakesNoSense) {
  const CpuFeatures cpu = read_cpu_features();
  EXPECT_DEATH(Matmul({.m = 0, .n = 1, .k = 1}, cpu, 1), "m=0");
  EXPECT_DEATH(Matmul({.m = 1, .n = 8, .k = 8, .ldb = 4}, cpu, 1), "rows overlap");
}

TEST(Matmul, TheRateOfTheMachineIsPlausible) {
  const CpuFeatures cpu = read_cpu_features();
  const double rate = measure_matrix_rate(DType::kF32, cpu, cpu.cores);
  EXPECT_GT(rate, 1e8);
  EXPECT_LT(rate, 1e14);
}

}  // namespace
}  // namespace tessera::kernels
