#include "kernels/elementwise.h"

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

TEST(Scale, MultipliesEveryElement) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16}) {
      const Array x = Array::random({3, 37}, 1, t), y({3, 37}, t);
      compute(ScaleArgs{x, 0.375f, y});
      std::vector<double> expected;
      for (int64_t i = 0; i < x.size(); ++i) expected.push_back(0.375 * x.at(i));
      EXPECT_LT(distance(y, expected), tolerance(t));
      compute(ScaleArgs{x, 0.375f, x});
      EXPECT_TRUE(x.same_bits(y));
    }
  });
}

}  // namespace
}  // namespace tessera::kernels
