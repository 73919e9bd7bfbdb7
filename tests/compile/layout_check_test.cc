#include "compile/layout_check.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"

namespace tessera::compile {
namespace {

model::ModelConfig model() {
  model::ModelConfig m;
  m.layers = 6;
  m.hidden = 64;
  m.heads = m.kv_heads = 16;
  m.feed_forward = 256;
  return m;
}

constexpr BatchSizes kBatch = {.global = 24, .micro = 2, .tokens = 128};

std::string said(const Layout& l, const model::ModelConfig& m = model(),
                 const BatchSizes& b = kBatch) {
  try {
    check_layout(m, l, b);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(LayoutCheck, PossibleLayoutsPass) {
  for (const int64_t tensor : {1, 2, 4, 8, 16})
    for (const int64_t data : {1, 2, 3, 4, 6, 12}) {
      Layout l;
      l.tensor = tensor;
      l.data = data;
      l.pipeline = 7;
      EXPECT_EQ(said(l), "");
    }
  Layout l;
  l.pipeline = 2;
  l.interleave = 2;
  l.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
  l.stages = {1, 2, 3, 0};
  l.data = 4;
  l.zero_group = 2;
  EXPECT_EQ(said(l), "");
}

TEST(LayoutCheck, TensorDividesHeadsAndWidths) {
  Layout l;
  l.tensor = 3;
  EXPECT_EQ(said(l),
            "layout.tensor = 3 does not divide heads = 16. Possible here: 1, 2, 4, 8, 16.");
  l.tensor = 4;
  model::ModelConfig m = model();
  m.kv_heads = 2;  // each on two ranks
  EXPECT_EQ(said(l, m), "");
  m.feed_forward = 250;
  EXPECT_EQ(said(l, m),
            "layout.tensor = 4 does not divide feed_forward = 250. Possible here: 1, 2.");
}

TEST(LayoutCheck, QuantizedWeightsHaveWholeBlocks) {
  CompileRequest r;
  r.model = model();
  r.model.hidden = 128;
  r.model.heads = r.model.kv_heads = 4;
  r.model.feed_forward = 256;
  model::derive_sizes(r.model);
  r.adapters.rank = 4;
  const auto said_of = [&] {
    try {
      check_quantization(r);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  r.layout.tensor = 4;
  EXPECT_EQ(said_of(), "");
  r.adapters.quantize = Quantization::kNf4;
  EXPECT_EQ(said_of(),
            "layout.tensor = 4 does not divide the 2 blocks of 64 inputs of layer.attn.out.weight, "
            "in which lora.quantize = nf4 stores it. Possible here: 1, 2.");
  r.layout.tensor = 2;
  EXPECT_EQ(said_of(), "");
  r.model.head_width = 96;  // 6 blocks
  EXPECT_EQ(said_of(),
            "lora.quantize = nf4 is not supported with layout.tensor = 2 for "
            "layer.attn.out.weight, whose 4 heads and 6 blocks of 64 inputs do not divide one "
            "another. Set layout.tensor: 1, or lora.quantize: none.");
  r.layout.tensor = 1;
  EXPECT_EQ(said_of(), "");
  r.model.feed_forward = 96;
  EXPECT_EQ(said_of(),
            "lora.quantize = nf4 stores blocks of 64 inputs, but layer.mlp.down.weight has 96 "
            "inputs. Set lora.quantize: none.");
}

TEST(LayoutCheck, AdafactorAndAdaptersWantWholeHeads) {
  CompileRequest r;
  r.model = model();
  r.model.kv_heads = 2;
  r.layout.tensor = 4;
  const auto said_of = [&] {
    try {
      check_head_copies(r);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(said_of(), "");
  r.optimizer.kind = OptimizerKind::kAdafactor;
  EXPECT_EQ(said_of(),
            "layout.tensor = 4 does not divide kv_heads = 2, so 2 ranks have the same keys and "
            "values, which optimizer.kind: adafactor does not support. Possible here: tensor = 1, "
            "2; or another optimizer.");
  r.optimizer.kind = OptimizerKind::kAdamW;
  r.groups = {{{"embed.*"}, {.kind = OptimizerKind::kMuon}}};
  EXPECT_NE(said_of().find("optimizer.kind: muon does not support"), std::string::npos);
  r.groups.clear();
  r.adapters.rank = 4;
  EXPECT_NE(said_of().find("which lora does not support. Possible here: tensor = 1, 2."),
            std::string::npos);
  r.layout.tensor = 2;
  EXPECT_EQ(said_of(), "");
  r.layout.context = 2;
  r.layout.context_method = ContextMethod::kHeads;
  EXPECT_NE(said_of().find("tensor x context = 1, 2; or layout.context_method: gather."),
            std::string::npos);
  // The gathered keys and values of 4 tensor-parallel ranks would be copies too.
  r.layout.tensor = 4;
  EXPECT_NE(said_of().find("tensor x context = 1, 2."), std::string::npos);
}

TEST(LayoutCheck, SequenceParallelismDividesAnyNumberOfTokens) {
  Layout l;
  l.tensor = 4;
  for (const int64_t tokens : {126, 127, 3, 1}) {
    BatchSizes b = kBatch;
    b.tokens = b.source = tokens;
    EXPECT_EQ(said(l, model(), b), "") << tokens;
  }
}

TEST(LayoutCheck, PairsOfAnswersHaveNoPadding) {
  CompileRequest r;
  r.tokens = 126;
  r.layout.tensor = 4;
  check_preference(r);
  r.preference.emplace();
  EXPECT_THROW(check_preference(r), Error);
  r.layout.sequence_parallel = false;
  check_preference(r);
}

TEST(LayoutCheck, DataAndMicroDivideTheBatch) {
  Layout l;
  l.data = 5;
  EXPECT_EQ(
      said(l),
      "batch.global = 24 is not a multiple of layout.data x batch.micro = 5 x 2 = 10. Nearest "
      "possible: 20 or 30.");
  l.data = 20;
  EXPECT_NE(said(l).find("Nearest possible: 40."), std::string::npos);
  l.data = 4;
  l.zero_group = 3;
  EXPECT_EQ(said(l),
            "layout.zero_group = 3 does not divide data = 4. Possible here: 0 (all), 1, 2, 4.");
  l.zero_group = 0;
  l.zero = 4;
  EXPECT_EQ(said(l), "layout.zero = 4. Possible: 0, 1, 2, 3.");
}

TEST(LayoutCheck, ExpertsAreDividedAmongDataRanks) {
  model::ModelConfig m = model();
  Layout l;
  l.data = 6;
  l.expert = 2;
  EXPECT_EQ(said(l), "layout.expert = 2: the model has no experts. Set it to 1.");
  m.experts = 8;
  m.experts_per_token = 2;
  EXPECT_EQ(said(l, m), "");
  l.expert = 3;
  EXPECT_EQ(said(l, m),
            "layout.expert = 3 does not divide model.experts = 8: the experts are divided among "
            "data-parallel ranks. Possible here: 1, 2.");
  l.expert = 4;
  EXPECT_NE(said(l, m).find("does not divide layout.data = 6"), std::string::npos);
  l.expert = 2;
  l.zero_group = 2;
  EXPECT_EQ(
      said(l, m),
      "layout.zero_group = 2 does not divide data / expert = 3. Possible here: 0 (all), 1, 3.");
  l.zero_group = 0;
  m.expert_feed_forward = 12;
  l.tensor = 8;
  EXPECT_NE(said(l, m).find("expert_feed_forward = 12"), std::string::npos);
}

TEST(LayoutCheck, StagesHoldAllLayers) {
  Layout l;
  l.pipeline = 8;
  EXPECT_EQ(said(l), "layout.pipeline = 8: 6 layers make at most 7 stages.");
  l.pipeline = 2;
  l.interleave = 2;
  EXPECT_NE(said(l).find("requires layout.pipeline_schedule: interleaved_1f1b"), std::string::npos);
  l.interleave = 8;
  EXPECT_EQ(said(l), "layout.interleave = 8: 6 layers make at most 7 chunks.");
  l.interleave = 1;
  l.pipeline = 2;
  l.stages = {3};
  EXPECT_EQ(said(l), "layout.stages has 1 numbers, expected pipeline x interleave = 2 x 1 = 2.");
  l.stages = {3, 4};
  EXPECT_EQ(said(l), "layout.stages adds up to 7 layers, the model has 6.");
  l.stages = {-1, 7};
  EXPECT_EQ(said(l), "layout.stages has -1, expected at least 0.");
}

TEST(LayoutCheck, ContextDividesTheTokens) {
  Layout l;
  l.context = 3;
  EXPECT_NE(said(l).find("layout.context = 3 does not divide the tokens"), std::string::npos);
  l.context = 2;
  EXPECT_EQ(said(l), "");
  l.tensor = 4;
  l.context = 64;
  EXPECT_EQ(
      said(l),
      "layout.context x layout.tensor (sequence_parallel) = 256 does not divide the tokens of "
      "a sequence = 128. Possible here: context = 1, 2, 4, 8, 16, 32. Or set "
      "layout.sequence_parallel: false.");
  l.sequence_parallel = false;
  EXPECT_EQ(said(l), "");
  BatchSizes b = kBatch;
  b.tokens = 126;  // with context = 1 the last parts have padding
  l.context = 2;
  EXPECT_EQ(said(l, model(), b), "");
  l.sequence_parallel = true;
  EXPECT_NE(said(l, model(), b).find("Possible here: context = 1. Or set"), std::string::npos);
}

TEST(LayoutCheck, ContextMethodsFitTokensAndHeads) {
  Layout l;
  l.context = 2;
  l.context_balance = true;
  EXPECT_EQ(said(l), "");
  l.context = 128;
  EXPECT_NE(said(l).find("into 2 x layout.context = 256 chunks, but 128 is not"), std::string::npos)
      << said(l);
  l.context_method = compile::ContextMethod::kHeads;
  EXPECT_NE(said(l).find("layout.context_balance = true requires layout.context_method = gather"),
            std::string::npos)
      << said(l);
  l.context_balance = false;
  EXPECT_NE(said(l).find("layout.context = 128 does not divide heads / layout.tensor = "),
            std::string::npos)
      << said(l);
  l.context = 2;
  EXPECT_EQ(said(l), "");
}

TEST(LayoutCheck, SizesAreAtLeastOne) {
  Layout l;
  l.data = 0;
  EXPECT_EQ(said(l), "layout.data = 0, expected at least 1.");
}

}  // namespace
}  // namespace tessera::compile
