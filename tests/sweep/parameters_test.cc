#include "sweep/parameters.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"

namespace tessera::sweep {
namespace {

Parameter parsed(const std::string& argument) {
  const std::optional<Parameter> p = parse_parameter(argument);
  EXPECT_TRUE(p) << argument;
  return p.value_or(Parameter());
}

TEST(Parameters, RangesAndLists) {
  const Parameter rate = parsed("optimizer.learning_rate=1e-4..1e-2");
  EXPECT_EQ(rate.key, "optimizer.learning_rate");
  EXPECT_EQ(rate.scale, Scale::kLogarithmic);
  EXPECT_FALSE(rate.integers);
  EXPECT_DOUBLE_EQ(rate.low, 1e-4);
  EXPECT_DOUBLE_EQ(rate.high, 1e-2);
  EXPECT_EQ(parsed("k=0.1..0.5").scale, Scale::kLinear);
  EXPECT_EQ(parsed("k=-1..1000.0").scale, Scale::kLinear);
  EXPECT_EQ(parsed("k=1..8").scale, Scale::kLinear);
  EXPECT_TRUE(parsed("k=1..8").integers);
  EXPECT_EQ(parsed("k=1..8").count(), 8);
  EXPECT_EQ(parsed("k=4..512").scale, Scale::kLogarithmic);
  EXPECT_EQ(parsed("k=4,8,none").values, (std::vector<std::string>{"4", "8", "none"}));
  EXPECT_EQ(parsed("k=4,8,none").count(), 3);
  EXPECT_FALSE(parsed("k=0.1..0.5").count());
}

TEST(Parameters, OneValueIsAnOverride) {
  for (const char* one : {"k=1", "data.tokenizer=../t.json", "data.train=[a, b]", "k='a,b'",
                          "k=", "k=a..b", "k={a: 1, b: 2}", "flag"})
    EXPECT_FALSE(parse_parameter(one)) << one;
}

TEST(Parameters, RefusesEmptyRangesAndLists) {
  for (const char* wrong : {"k=2..1", "k=1..1", "k=1e-4..inf", "k=nan..1", "k=a,,b", "k=a,",
                            "k=a,a", "k=0..9007199254740994"})
    EXPECT_THROW(parse_parameter(wrong), UsageError) << wrong;
}

TEST(Parameters, AGridHasBothEndsAndEvenSteps) {
  const std::vector<Parameter> keys = {parsed("a=1e-4..1e-2"), parsed("b=x,y")};
  EXPECT_EQ(grid(keys, 3, 100), (std::vector<Point>{{"0.0001", "x"},
                                                    {"0.0001", "y"},
                                                    {"0.001", "x"},
                                                    {"0.001", "y"},
                                                    {"0.01", "x"},
                                                    {"0.01", "y"}}));
  EXPECT_EQ(grid({parsed("n=1..3")}, 10, 100), (std::vector<Point>{{"1"}, {"2"}, {"3"}}));
  // Four digits would leave the range.
  EXPECT_EQ(grid({parsed("optimizer.beta2=0.9..0.99999")}, 2, 100),
            (std::vector<Point>{{"0.9"}, {"0.99999"}}));
  EXPECT_EQ(grid({parsed("n=0..100")}, 3, 100), (std::vector<Point>{{"0"}, {"50"}, {"100"}}));
  EXPECT_THROW(grid(keys, 60, 100), Error);
}

// The same seed has the same points, of which a longer sample only adds more.
TEST(Parameters, ASampleIsAFunctionOfItsSeed) {
  const std::vector<Parameter> keys = {parsed("a=1e-4..1e-2"), parsed("n=1..8"), parsed("c=x,y,z")};
  const std::vector<Point> ten = sample(keys, 10, 7), twenty = sample(keys, 20, 7);
  ASSERT_EQ(ten.size(), 10u);
  EXPECT_EQ(std::vector<Point>(twenty.begin(), twenty.begin() + 10), ten);
  EXPECT_NE(sample(keys, 10, 8), ten);
  EXPECT_EQ(std::set<Point>(twenty.begin(), twenty.end()).size(), 20u);
  EXPECT_EQ(sample({parsed("c=x,y,z")}, 10, 1).size(), 3u);  // there are no more
}

TEST(Parameters, SamplesAreUniformOnTheirScale) {
  const std::vector<Parameter> keys = {parsed("a=1e-4..1e-2"), parsed("n=1..4"),
                                       parsed("x=0.0..2.0")};
  int64_t low = 0, half = 0;
  std::map<std::string, int64_t> counts;
  const std::vector<Point> points = sample(keys, 2000, 3);
  for (const Point& p : points) {
    const double rate = std::stod(p[0]);
    EXPECT_GE(rate, 1e-4);
    EXPECT_LE(rate, 1e-2);
    low += rate < 1e-3;
    half += std::stod(p[2]) < 1;
    ++counts[p[1]];
  }
  EXPECT_NEAR(static_cast<double>(low), 1000, 100);
  EXPECT_NEAR(static_cast<double>(half), 1000, 100);
  ASSERT_EQ(counts.size(), 4u);
  for (const auto& [value, n] : counts) EXPECT_NEAR(static_cast<double>(n), 500, 80) << value;
}

TEST(Parameters, KeysOfAPoint) {
  const std::vector<Parameter> keys = {parsed("a=1..8"), parsed("b=x,y")};
  EXPECT_EQ(keys_of(keys, {"3", "x"}), (std::vector<std::string>{"a=3", "b=x"}));
  EXPECT_EQ(text_of(keys, {"3", "x"}), "a=3 b=x");
}

}  // namespace
}  // namespace tessera::sweep
