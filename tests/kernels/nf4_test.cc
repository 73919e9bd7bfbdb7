// NF4 against a NumPy implementation (scripts/nf4_golden.py) and plain loops, to the last bit.
#include "kernels/nf4.h"

#include <algorithm>
#include <set>

#include "tests/kernels/golden.h"

namespace tessera::kernels {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

// A tensor of [rows, blocks · 64].
struct Quantized {
  int64_t rows, blocks;
  Array codes{Shape{rows, blocks, kNf4Block / 2}, DType::kU8};
  Array scales{Shape{rows, blocks}, DType::kU8};
  Array levels{Shape{nf4_levels(rows * blocks)}};

  int code(int64_t i) const {
    const int both = codes.as<uint8_t>()[i / 2];
    return i % 2 == 0 ? both >> 4 : both & 15;
  }
};

template <class T>
std::span<T> all(const Array& a) {
  return {a.as<T>(), static_cast<size_t>(a.size())};
}

Quantized quantized(const Array& w, int threads = 1) {
  Quantized q = {w.shape()[0], w.shape()[1] / kNf4Block};
  quantize_nf4(all<float>(w), all<uint8_t>(q.codes), all<uint8_t>(q.scales), all<float>(q.levels),
               threads);
  return q;
}

Array dequantized(const Quantized& q, DType type, int threads = 1) {
  Array w({q.rows, q.blocks * kNf4Block}, type);
  compute(DequantizeNf4Args{q.codes, q.scales, q.levels, w, {1, q.rows, 0, q.rows}}, threads);
  return w;
}

Array as_type(const Array& f32, DType type) {
  Array y(f32.shape(), type);
  for (int64_t i = 0; i < y.size(); ++i) y.set(i, f32.at(i));
  return y;
}

// Blocks whose weights all have the block's magnitude.
Array blocks_of(const std::vector<float>& magnitudes) {
  Array w({1, static_cast<int64_t>(magnitudes.size()) * kNf4Block});
  for (int64_t i = 0; i < w.size(); ++i)
    w.set(i, (i % 3 == 0 ? -1.0 : 1.0) *
                 static_cast<double>(magnitudes[static_cast<size_t>(i / kNf4Block)]));
  return w;
}

TEST(Nf4, TheExampleOfTheReference) {
  Array w({1, kNf4Block});
  const double given[] = {0.1, -0.4, 0.05, 0.8, -1.6, 0, 0.3, -0.02};
  for (int64_t i = 0; i < 8; ++i) w.set(i, given[i]);
  const Quantized q = quantized(w);
  const int bytes[] = {0x84, 0x7c, 0x07, 0x97};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(q.codes.as<uint8_t>()[i], bytes[i]);
  EXPECT_EQ(q.scales.as<uint8_t>()[0], kNf4ZeroScale);
  EXPECT_EQ(q.levels.as<float>()[0], 1.6f);  // one block: its scale is the mean
  EXPECT_EQ(q.levels.as<float>()[1], 0.0f);
  const Array got = dequantized(q, DType::kF32);
  const double expected[] = {0.12732849, -0.45510623, 0, 0.70513576, -1.6, 0, 0.25748834, 0};
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(got.at(i), expected[i], 1e-7);
  for (int64_t i = 8; i < kNf4Block; ++i) EXPECT_EQ(got.at(i), 0);
}

TEST(Nf4, TheValuesOfScaleCodes) {
  const auto& map = kNf4ScaleMap.values;
  EXPECT_TRUE(std::is_sorted(std::begin(map), std::end(map)));
  EXPECT_EQ(map[kNf4ZeroScale], 0.0f);
  EXPECT_EQ(map[128], 5.5e-7f);
  EXPECT_EQ(map[129], 3.25e-6f);
  EXPECT_EQ(map[130], 7.75e-6f);
  EXPECT_EQ(map[254], 0.99296875f);
  EXPECT_EQ(map[255], 1.0f);
  for (int k = 0; k <= 126; ++k) EXPECT_EQ(map[k], -map[254 - k]);
}

TEST(Nf4, TheBitsOfNumPy) {
  const Golden golden("nf4.safetensors");
  for_every_target([&] {
    for (const std::string name : {"many", "one", "zeros", "example"})
      for (const int threads : {1, 4}) {
        SCOPED_TRACE(name);
        const Quantized q = quantized(golden(name + ".w"), threads);
        EXPECT_TRUE(q.codes.same_bits(golden(name + ".codes")));
        EXPECT_TRUE(q.scales.same_bits(golden(name + ".scales")));
        EXPECT_TRUE(q.levels.same_bits(golden(name + ".levels")));
        const Array values = golden(name + ".values");
        for (const DType type : kTypes)
          EXPECT_TRUE(dequantized(q, type, threads).same_bits(as_type(values, type)))
              << name_of(type);
      }
  });
  const Quantized q = quantized(golden("many.w"));
  std::set<int> codes;
  for (int64_t i = 0; i < 2 * q.codes.size(); ++i) codes.insert(q.code(i));
  EXPECT_EQ(codes.size(), 16u);
}

// Every byte of codes with every scale code, with levels for which a fused multiply-add would give
// other scales.
TEST(Nf4, EveryCodeOfWeightsAndScales) {
  Quantized q = {16, 16};
  q.levels.set(0, 0.123456789);
  q.levels.set(1, 0.0987654321);
  Array expected({q.rows, q.blocks * kNf4Block});
  int64_t fused_differ = 0;
  for (int64_t b = 0; b < 256; ++b) {
    // A permutation of the codes, so that neighbors differ by other amounts than 1.
    const auto code = static_cast<uint8_t>(b * 167);
    q.scales.as<uint8_t>()[b] = code;
    const float factor = q.levels.as<float>()[1], mean = q.levels.as<float>()[0];
    volatile float product = kNf4ScaleMap.values[code] * factor;  // not fused with the sum
    const float scale = product + mean;
    fused_differ += std::fma(kNf4ScaleMap.values[code], factor, mean) != scale ? 1 : 0;
    for (int64_t i = 0; i < kNf4Block; ++i) {
      const int64_t at = b * kNf4Block + i;
      uint8_t& both = q.codes.as<uint8_t>()[at / 2];
      both = static_cast<uint8_t>(at / 2 * 37 + b);
      expected.as<float>()[at] = kNf4Values[q.code(at)] * scale;
    }
  }
  EXPECT_GT(fused_differ, 10);
  for_every_target([&] {
    for (const DType type : kTypes)
      EXPECT_TRUE(dequantized(q, type).same_bits(as_type(expected, type))) << name_of(type);
  });
}

TEST(Nf4, BlocksOfZeros) {
  const Quantized q = quantized(blocks_of({0, 0.5f, 0, 2}));
  for (int64_t i = 0; i < kNf4Block; ++i) {
    EXPECT_EQ(q.code(i), 7);
    EXPECT_EQ(q.code(2 * kNf4Block + i), 7);
  }
  for (const DType type : kTypes) {
    const Array w = dequantized(q, type);
    for (int64_t i = 0; i < kNf4Block; ++i) EXPECT_EQ(w.at(i), 0);
  }
}

// 256 scales that are equal to the mean have the factor 0, and no rounding.
TEST(Nf4, EqualScales) {
  std::vector<float> magnitudes(512, 1.0f);
  for (size_t i = 0; i < 256; ++i) magnitudes[i] = i % 2 == 0 ? 0.5f : 1.5f;
  const Array w = blocks_of(magnitudes);
  const Quantized q = quantized(w);
  const float levels[] = {1.0f, 0.5f, 0.0f};
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(all<float>(q.levels)[i], levels[i]);
  for (int64_t b = 0; b < 256; ++b) {
    // -1 has no code; the nearest value is that of code 0.
    EXPECT_EQ(q.scales.as<uint8_t>()[b], b % 2 == 0 ? 0 : 255);
    EXPECT_EQ(q.scales.as<uint8_t>()[256 + b], kNf4ZeroScale);
  }
  const Array got = dequantized(q, DType::kF32);
  for (int64_t i = 256 * kNf4Block; i < w.size(); ++i) ASSERT_EQ(got.at(i), w.at(i));
}

// Scales 2, 1 + m, 1 - m and 0 have the mean 1 and the factor 1. For a midpoint m of two values
// both differences are exactly between two.
TEST(Nf4, TiesOfScalesGoToTheLowerCode) {
  int ties = 0;
  for (int k = 128; k < 255; ++k) {
    const double m = (static_cast<double>(kNf4ScaleMap.values[k]) +
                      static_cast<double>(kNf4ScaleMap.values[k + 1])) /
                     2;
    const auto above = static_cast<float>(1 + m), below = static_cast<float>(1 - m);
    if (static_cast<double>(above) != 1 + m || static_cast<double>(below) != 1 - m) continue;
    ++ties;
    const Quantized q = quantized(blocks_of({2, above, below, 0}));
    ASSERT_EQ(q.levels.as<float>()[0], 1.0f);
    ASSERT_EQ(q.levels.as<float>()[1], 1.0f);
    EXPECT_EQ(q.scales.as<uint8_t>()[1], k);
    EXPECT_EQ(q.scales.as<uint8_t>()[2], 253 - k);
  }
  EXPECT_GT(ties, 5);
}

// What ranks hold: parts of rows and of columns, written to parts of the rows of a larger tensor.
TEST(Nf4, PartsOfATensor) {
  constexpr int64_t kRows = 60, kBlocks = 9;  // 540 blocks: three factors
  const Quantized q = quantized(Array::random({kRows, kBlocks * kNf4Block}, 1));
  struct Part {
    int64_t first_row, rows, first_block, blocks;
    PartColumns part;
  };
  for (const Part& p : {Part{0, 60, 0, 9, {1, 60, 0, 60}}, Part{20, 20, 0, 9, {1, 25, 5, 20}},
                        Part{30, 30, 0, 9, {10, 5, 1, 3}}, Part{0, 60, 3, 3, {1, 60, 0, 60}},
                        Part{57, 3, 8, 1, {3, 2, 1, 1}}, Part{28, 2, 4, 5, {1, 3, 1, 2}}}) {
    SCOPED_TRACE(fmt::format("rows from {}, blocks from {}", p.first_row, p.first_block));
    const Array codes({p.rows, p.blocks, kNf4Block / 2}, DType::kU8);
    const Array scales({p.rows, p.blocks}, DType::kU8);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t b = 0; b < p.blocks; ++b) {
        const int64_t from = (p.first_row + r) * kBlocks + p.first_block + b;
        const int64_t to = r * p.blocks + b;
        scales.as<uint8_t>()[to] = q.scales.as<uint8_t>()[from];
        std::copy_n(q.codes.as<uint8_t>() + from * (kNf4Block / 2), kNf4Block / 2,
                    codes.as<uint8_t>() + to * (kNf4Block / 2));
      }
    for (const DType type : kTypes) {
      const Array whole = dequantized(q, type);
      const int64_t columns = p.blocks * kNf4Block;
      const Array w = Array::full({p.part.groups * p.part.width, columns}, 7, type);
      Array expected = Array::full(w.shape(), 7, type);
      for (int64_t r = 0; r < p.rows; ++r) {
        const int64_t row = r / p.part.count * p.part.width + p.part.first + r % p.part.count;
        for (int64_t c = 0; c < columns; ++c)
          expected.set(row * columns + c, whole.at((p.first_row + r) * kBlocks * kNf4Block +
                                                   p.first_block * kNf4Block + c));
      }
      for_every_target([&] {
        compute(DequantizeNf4Args{codes, scales, q.levels, w, p.part, p.first_row, p.first_block,
                                  kBlocks},
                3);
        EXPECT_TRUE(w.same_bits(expected)) << name_of(type);
      });
    }
  }
}

TEST(Nf4, TheSameBitsForAnyThreads) {
  const Array w = Array::random({300, 10 * kNf4Block}, 2);
  expect_same_for_any_threads([&](int threads) { return quantized(w, threads).codes; });
  expect_same_for_any_threads([&](int threads) { return quantized(w, threads).scales; });
  expect_same_for_any_threads([&](int threads) { return quantized(w, threads).levels; });
  const Quantized q = quantized(w);
  for (const DType type : kTypes)
    expect_same_for_any_threads([&](int threads) { return dequantized(q, type, threads); });
}

// The largest magnitude of a block is stored exactly as the value 1 or -1, so weights that were
// dequantized have the codes that they had.
TEST(Nf4, CodesOfDequantizedWeightsAreTheSame) {
  const Quantized q = quantized(Array::random({40, 8 * kNf4Block}, 3));
  const Quantized again = quantized(dequantized(q, DType::kF32));
  EXPECT_TRUE(again.codes.same_bits(q.codes));
}

TEST(Nf4, APowerOfTwoChangesTheLevelsOnly) {
  const Array w = Array::random({40, 8 * kNf4Block}, 4);
  Array small(w.shape());
  for (int64_t i = 0; i < w.size(); ++i) small.set(i, w.at(i) * 0x1p-7);
  const Quantized q = quantized(w), of_small = quantized(small);
  EXPECT_TRUE(of_small.codes.same_bits(q.codes));
  EXPECT_TRUE(of_small.scales.same_bits(q.scales));
  for (int64_t i = 0; i < q.levels.size(); ++i)
    EXPECT_EQ(of_small.levels.at(i), q.levels.at(i) * 0x1p-7);
}

TEST(Nf4, SizesThatDoNotFit) {
  const Quantized q = quantized(Array::random({4, 2 * kNf4Block}, 5));
  const Array w({4, 2 * kNf4Block});
  const auto run = [&](const PartColumns& part, int64_t first_row, int64_t first_block,
                       int64_t row_blocks) {
    compute(DequantizeNf4Args{q.codes, q.scales, q.levels, w, part, first_row, first_block,
                              row_blocks});
  };
  EXPECT_DEATH(run({1, 5, 0, 4}, 0, 0, 2), "of 1 groups of 5 rows");
  EXPECT_DEATH(run({1, 4, 0, 4}, 0, 1, 2), "block 1 of 2");
  EXPECT_DEATH(run({1, 4, 0, 4}, 126, 0, 2), "from row 126");
}

}  // namespace
}  // namespace tessera::kernels
