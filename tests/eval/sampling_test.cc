#include "eval/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"

namespace tessera::eval {
namespace {

TEST(Validate, NamesTheOption) {
  const auto message = [](const kernels::Sampling& o) -> std::string {
    try {
      validate(o);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message({.temperature = -1}).find("temperature = -1"), std::string::npos);
  EXPECT_NE(message({.temperature = NAN}).find("temperature"), std::string::npos);
  EXPECT_NE(message({.top_k = -2}).find("top_k = -2"), std::string::npos);
  EXPECT_NE(message({.top_p = 0}).find("top_p = 0"), std::string::npos);
  EXPECT_NE(message({.top_p = 1.5}).find("top_p = 1.5"), std::string::npos);
  EXPECT_EQ(message({}), "");
}

TEST(SamplingUniform, IsAFunctionOfItsMeaning) {
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t sequence = 0; sequence < 4; ++sequence) {
      for (uint64_t position = 0; position < 4; ++position) {
        const double u = sampling_uniform(seed, sequence, position);
        EXPECT_GE(u, 0);
        EXPECT_LT(u, 1);
        EXPECT_EQ(u, sampling_uniform(seed, sequence, position));
        seen.insert(u);
      }
    }
  }
  EXPECT_EQ(seen.size(), 64u);
}

}  // namespace
}  // namespace tessera::eval
