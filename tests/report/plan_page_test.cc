#include "report/plan_page.h"

#include <gtest/gtest.h>

#include "tests/report/plan_page.h"

namespace tessera::report {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<size_t> front_of(const std::vector<std::pair<double, double>>& points) {
  std::vector<SearchedLayout> layouts;
  for (const auto& [step_s, bytes] : points) layouts.push_back({"", "", step_s, bytes, 0});
  return pareto_front(layouts);
}

TEST(ParetoFront, HasTheLayoutsThatNoOtherOneBeats) {
  EXPECT_EQ(front_of({}), std::vector<size_t>{});
  EXPECT_EQ(front_of({{1, 7}, {1.5, 9}, {2, 3}, {0.5, 20}}), (std::vector<size_t>{3, 0, 2}));
  // Equal in both: the first one. Equal in one: the better one.
  EXPECT_EQ(front_of({{1, 5}, {1, 5}}), std::vector<size_t>{0});
  EXPECT_EQ(front_of({{1, 5}, {1, 4}}), std::vector<size_t>{1});
  EXPECT_EQ(front_of({{2, 5}, {1, 5}}), std::vector<size_t>{1});
}

TEST(PlanPage, IsSelfContained) {
  const std::string text = plan_page(sample_plan());
  EXPECT_TRUE(text.starts_with("<!doctype html>"));
  for (const char* request : {" src=", " href=", "url(", "@import", "sourceMappingURL", "fetch("})
    EXPECT_FALSE(has(text, request)) << request;
  EXPECT_FALSE(has(text, "@TITLE@"));
  EXPECT_FALSE(has(text, "@LAYOUTS@"));
}

TEST(PlanPage, ShowsTimeMemoryAndLayouts) {
  const std::string text = plan_page(sample_plan());
  EXPECT_TRUE(has(text, "<td>GEMMs</td><td class=\"n\">600.00 ms</td><td class=\"n\">60.0 %</td>"))
      << text.substr(text.find("<h2>Time"), 800);
  EXPECT_FALSE(has(text, "host copies"));  // takes no time
  EXPECT_TRUE(has(text, "<th class=\"n\">stage 1</th>"));
  EXPECT_TRUE(has(text, "<td>activations</td>"));
  EXPECT_TRUE(has(text, "layout.tensor=8"));
  EXPECT_TRUE(has(text, "layout 2 takes 500.00 ms less and needs 1.9 GiB less"))
      << text.substr(text.find("<h2>Layouts"), 3000);
  PlanPage equal = sample_plan();
  equal.search->layouts[1].step_s = 1;
  EXPECT_TRUE(has(plan_page(equal), "layout 2 needs 1.9 GiB less and is as fast"));
  EXPECT_TRUE(has(text, "<td>need more memory</td><td class=\"n\">12</td>"));
  EXPECT_FALSE(has(text, "<td>take longer</td>"));  // no layout
}

TEST(PlanPage, NamesAreNotMarkup) {
  PlanPage page = sample_plan();
  const std::string evil = "</script><script>alert(1)</script>";
  const std::string plain = plan_page(page);
  page.title = page.about = page.search->layouts[0].text = page.search->layouts[1].keys = evil;
  page.stages[0].parts[0].first = page.stages[1].parts[0].first = evil;
  const auto count = [](const std::string& text) {
    size_t n = 0;
    for (size_t at = text.find("<script"); at != std::string::npos;
         at = text.find("<script", at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(count(plan_page(page)), count(plain));
}

}  // namespace
}  // namespace tessera::report
