// Kernels of adapters against plain loops in double precision.
#include "kernels/adapters.h"

#include <cmath>

#include "base/error.h"
#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

struct Sizes {
  int64_t rows = 1;
  PartColumns part;

  int64_t columns() const { return part.groups * part.width; }
  // Returns the column of the part, or -1.
  int64_t in_part(int64_t column) const {
    const int64_t at = column % part.width - part.first;
    return at >= 0 && at < part.count ? column / part.width * part.count + at : -1;
  }
};

const Sizes kSizes[] = {{1, {1, 1, 0, 1}},
                        {3, {1, 7, 0, 7}},
                        {5, {2, 4, 1, 2}},
                        {4, {33, 2, 1, 1}},
                        {6, {3, 40, 16, 24}}};

void compare(const Sizes& z, DType type, int threads) {
  SCOPED_TRACE(fmt::format("{} rows, {} groups of {}, {} {}", z.rows, z.part.groups, z.part.width,
                           z.part.first, name_of(type)));
  const int64_t columns = z.columns(), of_part = z.part.groups * z.part.count;
  const Array x = Array::random({z.rows, columns}, 1, type);
  const Array dy = Array::random({z.rows, columns}, 2, type);
  const Array change = Array::random({z.rows, of_part}, 3, type);
  const Array magnitude = Array::random({of_part}, 4, type);
  const Array squares = Array::full({of_part}, 2.25, DType::kF32);
  Array sum(x.shape(), type);
  const Array y(x.shape(), type);
  const Array gradient = Array::full({of_part}, 0.5, DType::kF32);
  for (int64_t i = 0; i < x.size(); ++i) sum.set(i, x.at(i));
  compute(AddPartArgs{change, sum, z.part}, threads);
  compute(ScalePartArgs{x, magnitude, squares, y, z.part}, threads);
  compute(ScalePartGradArgs{dy, x, squares, gradient, z.part}, threads);
  std::vector<double> sums(static_cast<size_t>(of_part), 0.5);
  for (int64_t row = 0; row < z.rows; ++row)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = row * columns + c, m = z.in_part(c);
      if (m < 0) {
        ASSERT_EQ(sum.at(i), x.at(i));
        ASSERT_EQ(y.at(i), x.at(i));
        continue;
      }
      const double scaled = x.at(i) * magnitude.at(m) / 1.5;
      ASSERT_NEAR(sum.at(i), x.at(i) + change.at(row * of_part + m), tolerance(type) * 4);
      ASSERT_NEAR(y.at(i), scaled, tolerance(type) * (1 + std::abs(scaled)));
      sums[static_cast<size_t>(m)] += dy.at(i) * x.at(i) / 1.5;
    }
  for (int64_t m = 0; m < of_part; ++m)
    ASSERT_NEAR(gradient.at(m), sums[static_cast<size_t>(m)], 1e-5);
}

TEST(Adapters, ChangeAndScaleOnePart) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const Sizes& z : kSizes) compare(z, type, z.rows > 3 ? 2 : 1);
}

// The norm of a row of zeros is 0, and its outputs are.
TEST(Adapters, RowsOfZerosHaveNoScale) {
  const PartColumns part = {1, 2, 0, 2};
  const Array x({3, 2}, DType::kF32), magnitude({2}, DType::kF32), squares({2}, DType::kF32);
  const Array y = Array::full({3, 2}, 7, DType::kF32), dy = Array::random({3, 2}, 1, DType::kF32);
  const Array gradient = Array::full({2}, 0.5, DType::kF32);
  compute(ScalePartArgs{x, magnitude, squares, y, part}, 1);
  compute(ScalePartGradArgs{dy, x, squares, gradient, part}, 1);
  for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.at(i), 0);
  for (int64_t m = 0; m < 2; ++m) EXPECT_EQ(gradient.at(m), 0.5);
}

TEST(Adapters, SquaresAreThoseOfTheAdaptedRows) {
  const PartColumns part = {2, 5, 1, 3};
  constexpr int64_t kInputs = 37, kRank = 3;
  constexpr double kScale = 0.75;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Array w = Array::random({10, kInputs}, 1, type),
                a = Array::random({kRank, kInputs}, 2, type);
    const Array b = Array::random({6, kRank}, 3, type);
    const Array squares({6}, DType::kF32);
    compute(AdaptedSquaresArgs{w, a, b, squares, static_cast<float>(kScale), part}, 2);
    for (int64_t m = 0; m < 6; ++m) {
      const int64_t row = m / 3 * 5 + 1 + m % 3;
      double sum = 0;
      for (int64_t c = 0; c < kInputs; ++c) {
        double v = w.at(row * kInputs + c);
        for (int64_t k = 0; k < kRank; ++k)
          v += kScale * b.at(m * kRank + k) * a.at(k * kInputs + c);
        sum += v * v;
      }
      ASSERT_NEAR(squares.at(m), sum, 1e-5 * sum);
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
