#include "train/trace.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/tree.h"

namespace tessera::train {
namespace {

const std::vector<TraceEvent> kEvents = {
    {.op = "matmul",
     .origin = "layer 7, backward, attn.qkv",
     .queue = "compute",
     .start_s = 5.5,
     .duration_s = 0.25,
     .bytes = 1'000'000'000,
     .flops = 5e9,
     .share_of_limit = 0.75},
    {.op = "reduce_scatter", .origin = "layer 7", .queue = "data", .start_s = 5.0, .duration_s = 1},
    {.op = "norm", .origin = "a \"quoted\"\nname", .queue = "compute", .start_s = 5.75}};

std::string document(std::span<const TraceEvent> events, const std::string& title) {
  const std::string records[] = {chrome_records(events, {title, 0, 5.0})};
  return chrome_trace(records);
}

TEST(ChromeTrace, HasARowAQueueAndABarAnOp) {
  const Tree t = parse_json(document(kEvents, "step 10 of run"), "trace");
  const Tree::List& records = *t.find("traceEvents")->as_list();
  ASSERT_EQ(records.size(), 6u);  // the process, two rows, three bars
  EXPECT_EQ(*records[0].find("args")->find("name")->as_string(), "step 10 of run");
  const Tree& matmul = records[2];
  EXPECT_EQ(*matmul.find("name")->as_string(), "matmul");
  EXPECT_EQ(*matmul.find("ph")->as_string(), "X");
  EXPECT_EQ(std::get<double>(matmul.find("ts")->value), 0.5e6);
  EXPECT_EQ(std::get<double>(matmul.find("dur")->value), 0.25e6);
  EXPECT_EQ(std::get<int64_t>(matmul.find("tid")->value), 0);
  const Tree& arguments = *matmul.find("args");
  EXPECT_EQ(*arguments.find("origin")->as_string(), "layer 7, backward, attn.qkv");
  EXPECT_EQ(std::get<int64_t>(arguments.find("bytes")->value), 1'000'000'000);
  EXPECT_EQ(std::get<double>(arguments.find("gb_per_s")->value), 4);
  EXPECT_EQ(std::get<double>(arguments.find("gflop_per_s")->value), 20);
  EXPECT_EQ(std::get<double>(arguments.find("share_of_limit")->value), 0.75);
  EXPECT_EQ(std::get<int64_t>(records[4].find("tid")->value), 1);
}

TEST(ChromeTrace, LeavesOutWhatIsNotKnownAndEscapesText) {
  const Tree t = parse_json(document(kEvents, "run"), "trace");
  const Tree& norm = t.find("traceEvents")->as_list()->back();
  EXPECT_EQ(*norm.find("args")->find("origin")->as_string(), "a \"quoted\"\nname");
  EXPECT_EQ(norm.find("args")->find("share_of_limit"), nullptr);
  EXPECT_EQ(norm.find("args")->find("gb_per_s"), nullptr);
}

TEST(ChromeTrace, RanksAreProcessesOfOneDocument) {
  const std::string records[] = {chrome_records(kEvents, {"rank 0", 0, 5.0}),
                                 chrome_records(kEvents, {"rank 1", 1, 5.25})};
  const Tree t = parse_json(chrome_trace(records), "trace");
  const Tree::List& all = *t.find("traceEvents")->as_list();
  ASSERT_EQ(all.size(), 12u);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(std::get<int64_t>(all[i].find("pid")->value), static_cast<int64_t>(i / 6));
  EXPECT_EQ(*all[6].find("args")->find("name")->as_string(), "rank 1");
  EXPECT_EQ(std::get<double>(all[8].find("ts")->value), 0.25e6);
}

TEST(ChromeTrace, NoEventsIsADocumentToo) {
  const Tree t = parse_json(document({}, "run"), "trace");
  EXPECT_EQ(t.find("traceEvents")->as_list()->size(), 1u);
}

}  // namespace
}  // namespace tessera::train
