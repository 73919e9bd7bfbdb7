#include "measure/device_rates.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tessera::measure {
namespace {

TEST(BenchRates, CasesAreTheProductsOfTheModel) {
  const auto cases = product_cases(2048, 512, 50304);
  ASSERT_EQ(cases.size(), 16u);  // 2048^3; four products of a layer and the head, three of each
  std::multiset<std::string> names;
  for (const ProductCase& c : cases) {
    names.insert(c.name);
    const double flops =
        static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    if (c.name == "qkv") {
      EXPECT_EQ(flops, 2048.0 * 1536 * 512);
    }
    if (c.name == "head") {
      EXPECT_EQ(flops, 512.0 * 50304 * 512);
    }
  }
  for (const char* name : {"qkv", "projection", "up", "down", "head"})
    EXPECT_EQ(names.count(name), 3u);
}

TEST(BenchRates, EveryKindAndTypeIsMeasured) {
  const CpuFeatures cpu = read_cpu_features();
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const GemmKind kind :
         {GemmKind::kForward, GemmKind::kInputGradient, GemmKind::kWeightGradient}) {
      const ProductRate rate = measure_product({"small", kind, 64, 48, 32}, type, cpu, 2, 0.001);
      EXPECT_GT(rate.plain, 1e5);
      EXPECT_LT(rate.best(), 1e14);
      EXPECT_EQ(rate.packed > 0, kind != GemmKind::kWeightGradient);
      EXPECT_GE(rate.best(), rate.packed);
    }
  }
}

}  // namespace
}  // namespace tessera::measure
