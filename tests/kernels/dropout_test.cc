#include "kernels/dropout.h"

#include "base/philox.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

bool kept(const Dropout& d, uint64_t sample, int64_t element) {
  const auto e = static_cast<uint64_t>(element);
  return Philox::uniform(Philox{d.key}.block(e / 4, sample)[e % 4]) >= d.probability;
}

TEST(Dropout, MaskIsTheStatedFunction) {
  for_every_target([] {
    const Dropout d{.probability = 0.3f, .key = 0x123456789abcdefull};
    for (const int64_t f : {1, 7, 64, 131}) {
      const Array x = Array::random({2, 5, f}, 1);
      Array y({2, 5, f}), samples({2}, DType::kI64);
      samples.set(0, 77);
      samples.set(1, 5e9);
      compute(DropoutArgs{x, samples, d, y});
      for (int64_t i = 0; i < x.size(); ++i) {
        const bool keep = kept(d, i < 5 * f ? 77 : 5000000000u, i % (5 * f));
        EXPECT_NEAR(y.at(i), keep ? x.at(i) / 0.7 : 0, 1e-6) << i;
      }
    }
  });
}

TEST(Dropout, APartOfASampleDrawsItsPartOfTheMask) {
  const Dropout d{.probability = 0.5f, .key = 9};
  const int64_t t = 6, f = 100;
  const Array x = Array::full({1, t, f}, 1);
  Array whole({1, t, f}), samples({1}, DType::kI64);
  samples.set(0, 3);
  compute(DropoutArgs{x, samples, d, whole});
  const Array part_x = Array::full({1, 2, 30}, 1);
  Array part({1, 2, 30});
  compute(DropoutArgs{part_x, samples, d, part, {.first_row = 3, .first_column = 41, .width = f}});
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t c = 0; c < 30; ++c) {
      EXPECT_EQ(part.at(r * 30 + c), whole.at((3 + r) * f + 41 + c));
    }
  }
}

// The mask that is kept says what was drawn, and the gradient by it is that of the drawn one.
TEST(Dropout, AMaskThatIsKeptGivesTheSameGradient) {
  for_every_target([] {
    const Dropout d{.probability = 0.3f, .key = 17};
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Shape s{2, 5, 67};
      const Array x = Array::random(s, 1, t), dy = Array::random(s, 2, t);
      Array y(s, t), again(s, t), mask(s, DType::kU8), drawn(s, t), by_mask(s, t);
      Array samples({2}, DType::kI64);
      samples.set(1, 9);
      compute(DropoutArgs{x, samples, d, y, {}, mask});
      compute(DropoutArgs{x, samples, d, again});
      EXPECT_TRUE(y.same_bits(again));
      compute(DropoutArgs{dy, samples, d, drawn});
      compute(DropoutGradArgs{dy, mask, d.probability, by_mask});
      EXPECT_TRUE(by_mask.same_bits(drawn));
      for (int64_t i = 0; i < x.size(); ++i) {
        const int kept_here = mask.as<uint8_t>()[i];
        EXPECT_EQ(kept_here, kept(d, i < 5 * 67 ? 0 : 9, i % (5 * 67)) ? 1 : 0) << i;
      }
    }
  });
}

TEST(Dropout, DropsTheShareItSays) {
  const Array x = Array::full({4, 100, 256}, 1);
  Array y({4, 100, 256}), samples({4}, DType::kI64);
  for (int64_t i = 0; i < 4; ++i) samples.set(i, static_cast<double>(i));
  compute(DropoutArgs{x, samples, {.probability = 0.1f, .key = 4}, y});
  double sum = 0;
  for (int64_t i = 0; i < y.size(); ++i) sum += y.at(i);
  EXPECT_NEAR(sum / static_cast<double>(y.size()), 1, 0.005);
}

}  // namespace
}  // namespace tessera::kernels
