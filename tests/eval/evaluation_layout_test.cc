#include "eval/evaluation_layout.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::eval {
namespace {

TEST(EvaluationLayout, IsParsedAndPrinted) {
  const compile::Layout l = parse_layout("tensor=2,pipeline=3,data=4,zero=3");
  EXPECT_EQ(l.tensor, 2);
  EXPECT_EQ(l.pipeline, 3);
  EXPECT_EQ(l.data, 4);
  EXPECT_EQ(l.zero, 3);
  EXPECT_EQ(ranks_of(l), 24);
  EXPECT_EQ(to_string(l), "data=4,tensor=2,pipeline=3,zero=3");
  EXPECT_EQ(to_string(parse_layout("tensor=1")), "1 rank");
  for (const char* wrong :
       {"", "tensor", "tensor=", "tensor=x", "tensor=0", "tensor=-2", "rows=2", "tensor=2,,data=2",
        "tensor=2 ", "zero=7", "expert=2", "data=2,expert=0", "data=4000000",
        "data=1048576,tensor=1048576,pipeline=1048576,context=16"})
    EXPECT_THROW(parse_layout(wrong), Error) << wrong;
}

TEST(EvaluationLayout, KeepsDegreesAndDropsWhatABackwardNeeds) {
  compile::Layout run = parse_layout("data=2,tensor=2,pipeline=2");
  run.zero = 2;
  run.interleave = 2;
  run.context_balance = true;
  run.pipeline_schedule = compile::PipelineSchedule::kInterleaved1F1B;
  run.stages = {1, 1, 1, 1};
  run.recompute = "full";
  run.offload = "activations";
  const compile::Layout l = evaluation_layout(run);
  EXPECT_EQ(ranks_of(l), 8);
  EXPECT_EQ(l.interleave, 1);
  EXPECT_FALSE(l.context_balance);
  EXPECT_TRUE(l.stages.empty());
  EXPECT_EQ(l.recompute, "none");
  EXPECT_EQ(l.offload, "none");
  EXPECT_EQ(l.zero, 0);
  EXPECT_FALSE(l.sequence_parallel);
}

TEST(EvaluationLayout, ADataParallelRunIsEvaluatedByCopies) {
  EXPECT_FALSE(divides_model(parse_layout("data=4")));
  compile::Layout of_optimizer = parse_layout("data=4");
  of_optimizer.zero = 2;
  EXPECT_FALSE(divides_model(of_optimizer));
  EXPECT_FALSE(divides_model(parse_layout("context=2")));
  for (const char* text :
       {"data=4,zero=3", "tensor=2", "pipeline=2", "data=2,expert=2", "context=2,zero=3"})
    EXPECT_TRUE(divides_model(parse_layout(text))) << text;
}

}  // namespace
}  // namespace tessera::eval
