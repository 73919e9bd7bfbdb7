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

TEST(SoftCap, IsTheHyperbolicTangent) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16})
      for (const double size : {1e-4, 1.0, 40.0, 1e4}) {
        const Array x = Array::random({3, 37}, 1, t, size), y({3, 37}, t);
        compute(SoftCapArgs{x, 30, y});
        std::vector<double> expected;
        for (int64_t i = 0; i < x.size(); ++i) expected.push_back(30 * std::tanh(x.at(i) / 30));
        EXPECT_LT(distance(y, expected), tolerance(t)) << size;
        compute(SoftCapArgs{x, 30, x});
        EXPECT_TRUE(x.same_bits(y));
      }
  });
}

}  // namespace
}  // namespace tessera::kernels
