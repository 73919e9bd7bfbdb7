// Texts that ranks write together, with a cache of keys and values that the layout divides, are
// those of one rank.
#include <array>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "eval/batch_decoder.h"
#include "eval/text_batch.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/comm/ranks.h"
#include "tests/eval/fresh_model.h"

namespace tessera::eval {
namespace {

using testing::ranks;

constexpr int64_t kContext = 40;  // more than two chunks of a prompt, and less than three

config::RunConfig config_of(model::Family family) {
  config::RunConfig c = train::tiny(family);
  c.model.context = kContext;
  c.model.layers = 3;
  const model::ModelFamily& rule = model::rule_of(family);
  // 4 tensor ranks have copies of 2 key/value heads where the family allows it.
  if (!rule.copies_heads) c.model.kv_heads = 4;
  if (rule.has_experts) {
    c.model.experts = 4;
    c.model.experts_per_token = 2;
    c.model.expert_feed_forward = 16;
  }
  if (family == model::Family::kMistral) c.model.window = 8;
  if (family == model::Family::kGemma2 || family == model::Family::kGemma3 ||
      family == model::Family::kGptOss) {
    c.model.window = 8;
    c.model.window_layers = {0, 2};
  }
  if (c.model.latent.exists())
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 4, .rope_width = 4, .value_width = 6};
  model::derive_sizes(c.model);
  return c;
}

// The same checkpoint for all ranks, written by rank 0.
class SharedModel {
 public:
  explicit SharedModel(model::Family family) : SharedModel(config_of(family)) {}
  explicit SharedModel(const config::RunConfig& config) {
    std::string name;
    if (ranks().rank() == 0) {
      folder_.emplace();
      name = fresh_model(folder_->path(), config).string();
    }
    ranks().broadcast(name, 0);
    path_ = name;
  }
  ~SharedModel() { ranks().barrier(); }
  SharedModel(const SharedModel&) = delete;
  SharedModel& operator=(const SharedModel&) = delete;
  const Path& path() const { return path_; }

 private:
  std::optional<checkpoint::TemporaryFolder> folder_;
  Path path_;
};

std::vector<int32_t> ids(int32_t seed, int64_t length) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < length; ++i) out.push_back((i * 7 + seed * 13 + i * i * seed) % 96);
  return out;
}

struct Result {
  std::vector<int32_t> tokens;
  std::vector<double> log_probabilities;
  Ending ending = Ending::kCancelled;
};

// A prompt of a length, and how its text continues.
struct Text {
  int64_t prompt = 1, max_tokens = 4;
  double temperature = 0;
  bool prompt_probabilities = false;
  int64_t stop_after = 1000;  // the reader has enough after this number of tokens
};

// Prompts of unequal lengths, shorter and longer than a chunk; samples; contexts that fill up.
constexpr Text kTexts[] = {{1, 5},
                           {37, 3},
                           {17, 6, 0.8},
                           {2, 38},
                           {40, 0, 0, true},
                           {16, 4},
                           {33, 7},
                           {20, 3, 0, true},
                           {3, 4, 1.2},
                           {34, 6, 0, true},
                           {24, 16, 0.5},
                           {12, 9},
                           {5, 30, 0, false, 2},
                           {18, 20, 0.7, false, 5}};

TextRequest request_of(const Text& t, int32_t number, Result& result) {
  TextRequest r;
  r.prompt = ids(number, t.prompt);
  r.sampling.choice.temperature = t.temperature;
  r.max_tokens = t.max_tokens;
  r.seed = 3;
  r.sequence = static_cast<uint64_t>(number);
  r.top_probabilities = 0;
  r.prompt_probabilities = t.prompt_probabilities;
  r.each = [&result, &t](const NewToken& n) {
    result.tokens.push_back(n.token);
    result.log_probabilities.push_back(n.log_probability);
    return std::ssize(result.tokens) < t.stop_after;
  };
  r.end = [&result](Ending how) { result.ending = how; };
  return r;
}

// Writes the texts with as many at once as the decoder has slots; one more begins per step.
std::deque<Result> written(TextBatch& batch) {
  std::deque<Result> results(std::size(kTexts));
  size_t begun = 0;
  for (int step = 0; begun < results.size() || batch.active() > 0; ++step) {
    if (begun < results.size() && batch.has_room()) {
      batch.add(request_of(kTexts[begun], static_cast<int32_t>(begun), results[begun]));
      ++begun;
    }
    batch.step();
    CHECK(step < 1000, "the texts do not end");
  }
  return results;
}

std::deque<Result> written(BatchDecoder& decoder) {
  TextBatch batch(decoder);
  return written(batch);
}

void expect_near(const std::deque<Result>& found, const std::deque<Result>& expected,
                 double bound) {
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "text " << i);
    EXPECT_EQ(found[i].tokens, expected[i].tokens);
    EXPECT_EQ(found[i].ending, expected[i].ending);
    ASSERT_EQ(found[i].log_probabilities.size(), expected[i].log_probabilities.size());
    for (size_t t = 0; t < expected[i].log_probabilities.size(); ++t)
      EXPECT_NEAR(found[i].log_probabilities[t], expected[i].log_probabilities[t], bound) << t;
  }
}

// The difference between layouts, whose sums have another order.
constexpr double kRounding = 2e-5;
// The texts of one layout have the same bits whichever texts are written with them. An expert of
// several data-parallel ranks reads the tokens of all of them in one GEMM, whose sums may have
// another order than those of fewer tokens.
double bound_within(const compile::Layout& layout) { return layout.expert > 1 ? kRounding : 0; }

struct Degrees {
  int64_t data = 1, tensor = 1, pipeline = 1, context = 1, expert = 1, zero = 0;
};
constexpr Degrees kLayouts[] = {
    // data, tensor, pipeline, context, expert, zero
    {1, 2, 1},          {2, 1, 1},         {1, 1, 2},    {1, 1, 1, 2},    {2, 1, 1, 1, 2},
    {2, 1, 1, 1, 1, 3}, {1, 4, 1},         {2, 2, 1},    {1, 2, 2},       {4, 1, 1},
    {2, 1, 2},          {1, 1, 4},         {1, 2, 1, 2}, {2, 2, 1, 1, 2}, {2, 1, 2, 1, 2},
    {4, 1, 1, 1, 2},    {2, 2, 1, 1, 1, 3}};

compile::Layout layout_of(const Degrees& d) {
  compile::Layout layout;
  layout.data = d.data;
  layout.tensor = d.tensor;
  layout.pipeline = d.pipeline;
  layout.context = d.context;
  layout.expert = d.expert;
  layout.zero = d.zero;
  return layout;
}

// Calls f with each layout of these ranks.
template <class F>
void for_each_layout(model::Family family, F&& f) {
  const bool has_experts = model::rule_of(family).has_experts;
  int layouts = 0;
  for (const Degrees& d : kLayouts) {
    const compile::Layout layout = layout_of(d);
    if (compile::mesh_of(layout).ranks() != ranks().size() || (d.expert > 1 && !has_experts))
      continue;
    ++layouts;
    SCOPED_TRACE(::testing::Message()
                 << "data " << d.data << ", tensor " << d.tensor << ", pipeline " << d.pipeline
                 << ", context " << d.context << ", expert " << d.expert << ", zero " << d.zero);
    f(layout);
  }
  EXPECT_GE(layouts, 5);
}

class DecoderRanks : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, DecoderRanks, ::testing::ValuesIn(every_decoder()),
                         [](const auto& f) { return name_of_entry(f.param); });

TEST_P(DecoderRanks, EveryLayoutWritesTheTextsOfOneRank) {
  const SharedModel model(GetParam());
  checkpoint::CheckpointReader reader(model.path());
  BatchDecoder single(reader, {}, {.slots = 5});
  const std::deque<Result> expected = written(single);
  EXPECT_EQ(expected[3].tokens.size(), 38u);
  EXPECT_EQ(expected[13].tokens.size(), 5u);
  for_each_layout(GetParam(), [&](const compile::Layout& layout) {
    const ModelOptions where = {.world = &ranks(), .layout = layout};
    BatchDecoder one_slot(reader, where, {.slots = 1}), several(reader, where, {.slots = 5});
    EXPECT_EQ(one_slot.slots(), 1);
    const std::deque<Result> alone = written(one_slot);
    expect_near(alone, expected, kRounding);
    // Texts that are written together, in slots that data-parallel ranks do not divide evenly.
    expect_near(written(several), alone, bound_within(layout));
  });
}

class DecoderReuse : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, DecoderReuse,
                         ::testing::Values(model::Family::kLlama, model::Family::kGemma3,
                                           model::Family::kDeepseekV3, model::Family::kGptOss),
                         [](const auto& f) { return name_of_entry(f.param); });

// With as many slots as texts, each text's slot keeps its cache.
TEST_P(DecoderReuse, RanksReuseTheCacheOfAnEarlierText) {
  const SharedModel model(GetParam());
  checkpoint::CheckpointReader reader(model.path());
  for_each_layout(GetParam(), [&](const compile::Layout& layout) {
    BatchDecoder decoder(reader, {.world = &ranks(), .layout = layout},
                         {.slots = std::ssize(kTexts)});
    TextBatch batch(decoder);
    const std::deque<Result> first = written(batch);
    EXPECT_EQ(batch.counts().reused_tokens, 0);
    expect_near(written(batch), first, bound_within(layout));
    EXPECT_GT(batch.counts().reused_tokens, 100);
  });
}

// The bytes of all ranks.
double total(int64_t own) {
  double sum = static_cast<double>(own);
  ranks().all_reduce({&sum, 1}, comm::Reduction::kSum);
  return sum;
}

TEST(DecoderMemory, RanksDivideTheCache) {
  const SharedModel model(model::Family::kLlama);
  checkpoint::CheckpointReader reader(model.path());
  BatchDecoder single(reader, {}, {.slots = 6});
  const auto whole = static_cast<double>(single.cache_bytes());
  const auto n = static_cast<double>(ranks().size());
  const auto bytes = [&](int64_t compile::Layout::*degree) {
    compile::Layout layout;
    layout.*degree = ranks().size();
    const ModelOptions where = {.world = &ranks(), .layout = layout};
    const BatchDecoder decoder(reader, where, {.slots = 6});
    EXPECT_LT(decoder.cache_bytes() + decoder.weight_bytes(), decoder.memory_bytes());
    EXPECT_EQ(decoder.memory_bytes(),
              decoder_bytes(config_of(model::Family::kLlama).model, where, {.slots = 6}));
    return total(decoder.cache_bytes());
  };
  // Heads, of which ranks beyond their number have copies.
  EXPECT_EQ(bytes(&compile::Layout::tensor), whole * std::max(1.0, n / 2));
  EXPECT_EQ(bytes(&compile::Layout::pipeline), whole);
  // Rows of slots, and a spare one on each rank.
  EXPECT_EQ(bytes(&compile::Layout::data), whole * n * (std::ceil(6 / n) + 1) / 6);
}

// The costs of layers, by which they are divided into stages, depend on the number of tokens. All
// programs have the layers of the same stages.
TEST(DecoderStages, LayersOfUnequalCost) {
  for (int64_t window_layer = 0; window_layer < 3; ++window_layer)
    for (const int64_t experts : {4, 16}) {
      config::RunConfig c = config_of(model::Family::kQwen3Moe);
      c.model.experts = experts;
      c.model.expert_feed_forward = 24;
      c.model.window = 4;
      c.model.window_layers = {window_layer};
      c.model.dense_layers = {2};
      c.model.tied_embeddings = true;
      model::derive_sizes(c.model);
      const SharedModel model(c);
      checkpoint::CheckpointReader reader(model.path());
      BatchDecoder single(reader, {}, {.slots = 5});
      compile::Layout layout;
      layout.pipeline = ranks().size();
      BatchDecoder decoder(reader, {.world = &ranks(), .layout = layout}, {.slots = 5});
      expect_near(written(decoder), written(single), kRounding);
    }
}

TEST(DecoderErrors, RejectsALayoutOfOtherRanks) {
  const SharedModel model(model::Family::kLlama);
  checkpoint::CheckpointReader reader(model.path());
  compile::Layout layout;
  layout.tensor = 3;
  EXPECT_THROW(BatchDecoder(reader, {.world = &ranks(), .layout = layout}, {.slots = 1}), Error);
}

}  // namespace
}  // namespace tessera::eval
