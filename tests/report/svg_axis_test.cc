#include "report/svg_axis.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::report {
namespace {

std::vector<std::string> texts(const std::vector<Tick>& ticks) {
  std::vector<std::string> all;
  for (const Tick& t : ticks) all.push_back(t.text);
  return all;
}
using Texts = std::vector<std::string>;

TEST(SvgAxis, TicksAreRound) {
  EXPECT_EQ(texts(round_ticks(2.127, 5.261)), (Texts{"3", "4", "5"}));
  EXPECT_EQ(texts(round_ticks(0, 1)), (Texts{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(texts(round_ticks(-0.3, 0.1)), (Texts{"-0.3", "-0.2", "-0.1", "0", "0.1"}));
  EXPECT_EQ(texts(round_ticks(0.0002732, 0.004156)), (Texts{"0.001", "0.002", "0.003", "0.004"}));
  EXPECT_EQ(texts(round_ticks(3, 3)), Texts{"3"});
  EXPECT_TRUE(round_ticks(std::nan(""), 1).size() <= 1);
}

TEST(SvgAxis, TicksOfALogarithmAreOneTwoAndFive) {
  const auto ticks = [](double low, double high) {
    return texts(log_ticks(std::log10(low), std::log10(high)));
  };
  EXPECT_EQ(ticks(0.0002732, 0.004156), (Texts{"0.0005", "0.001", "0.002"}));
  EXPECT_EQ(ticks(1e-6, 1e-1), (Texts{"1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1"}));
  // A short range has round numbers instead, at their logarithms.
  EXPECT_EQ(ticks(0.0031, 0.0044), (Texts{"0.0035", "0.004"}));
  EXPECT_DOUBLE_EQ(log_ticks(std::log10(0.0031), std::log10(0.0044))[0].value, std::log10(0.0035));
  EXPECT_TRUE(log_ticks(-INFINITY, 0).empty());
}

TEST(SvgAxis, LabelsAreInsideAndDoNotTouch) {
  SvgAxis axis(64, 546);
  axis.cover(0), axis.cover(1);
  const std::vector<Tick> ticks = {{0, "0.0002732"}, {0.01, "0.0003"}, {1, "0.004156"}};
  const std::vector<TickLabel> labels = labels_of(ticks, axis, 0, 560);
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[0].text, "0.0002732");
  EXPECT_EQ(labels[1].text, "0.004156");
  EXPECT_LE(labels[1].x + text_width(labels[1].text) / 2, 560);
  EXPECT_LT(labels[1].x, axis.at(1));
  axis.cover(std::nan(""));
  EXPECT_EQ(axis.low(), 0);
}

}  // namespace
}  // namespace tessera::report
