// A model with adapters, and the plain weights that merging makes of it, give the same logits.
#include <cmath>

#include "checkpoint/async_save.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/merge.h"
#include "checkpoint/peft.h"
#include "checkpoint/stored_adapters.h"
#include "data/indexed_dataset_writer.h"
#include "eval/language_model.h"
#include "tests/checkpoint/peft_folder.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/train/quantized_run.h"

namespace tessera::eval {
namespace {

checkpoint::CheckpointHeader header_of(const config::RunConfig& c, int64_t step) {
  checkpoint::CheckpointHeader h;
  h.step = step;
  h.config = to_tree(c);
  h.model = to_tree(c.model);
  h.state = Tree::object();
  h.version = "test";
  return h;
}

std::vector<float> logits_of(checkpoint::CheckpointReader& reader, const config::RunConfig& c) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < c.model.context; ++i) tokens.push_back((i * 7 + 3) % 96);
  const std::vector<int32_t> source(c.model.encoder_layers > 0 ? 7 : 0, 5);
  LogitsModel model(reader, 1, c.model.context, {}, std::ssize(source));
  const std::span<const float> logits = model.read(tokens, source);
  return {logits.begin(), logits.end()};
}

std::vector<float> logits_of(const Path& checkpoint, const config::RunConfig& c) {
  checkpoint::CheckpointReader reader(checkpoint);
  return logits_of(reader, c);
}

std::shared_ptr<const checkpoint::StoredAdapters> adapters_in(
    const Path& folder, const checkpoint::CheckpointReader& base) {
  return std::make_shared<const checkpoint::StoredAdapters>(
      checkpoint::read_adapters(folder, model_of(base)));
}

// The adapters of a PEFT folder, or those of a checkpoint, over `base` give the logits of the
// imported copy `imported`; without them, those of the base.
void expect_the_same_over_the_base(const Path& base, const Path& imported,
                                   const std::vector<Path>& folders, const config::RunConfig& c) {
  const std::vector<float> copied = logits_of(imported, c);
  checkpoint::CheckpointReader reader(base);
  for (const Path& folder : folders) {
    reader.use_adapters(adapters_in(folder, reader));
    EXPECT_EQ(logits_of(reader, c), copied) << folder;
  }
  EXPECT_THROW(checkpoint::require_no_adapters(reader), Error);
  reader.use_adapters(nullptr);
  EXPECT_EQ(logits_of(reader, c), logits_of(base, c));
  EXPECT_NE(logits_of(reader, c), copied);
  checkpoint::CheckpointReader adapted(imported);
  EXPECT_THROW(adapted.use_adapters(adapters_in(folders[0], reader)), Error);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

class EveryFamily : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Adapters, EveryFamily, testing::ValuesIn(every_family()));

// Trains adapters for ten steps, and compares them with what is merged and with what is written as
// a PEFT folder and read again.
void expect_the_same_logits(config::RunConfig c) {
  checkpoint::TemporaryFolder folder;
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  trainer.initialize();
  checkpoint::save(folder.path(), header_of(c, 1), trainer.state());
  data::BatchSource source = train::batches(c);
  for (int s = 1; s <= 10; ++s) trainer.step(s, 2e-2, source);
  checkpoint::save(folder.path(), header_of(c, 2), trainer.state());
  const Path merged = folder.path() / "merged";
  int64_t announced = 0;
  const checkpoint::Merged sum = checkpoint::merge_adapters(
      checkpoint::CheckpointReader(folder.path() / "2"), merged, "test",
      [&](int64_t done, int64_t all) { announced += static_cast<int64_t>(done < all); });
  EXPECT_GT(sum.adapters, 0);
  EXPECT_EQ(announced, sum.tensors);
  const auto tuned = logits_of(folder.path() / "2", c), plain = logits_of(merged, c);
  EXPECT_LT(distance(plain, tuned), 1e-5);
  EXPECT_GT(distance(logits_of(folder.path() / "1", c), tuned), 1e-3);  // something was learned
  const Path peft = folder.path() / "peft", base = folder.path() / "base";
  EXPECT_GT(checkpoint::export_peft(checkpoint::CheckpointReader(folder.path() / "2"), peft, "base")
                .adapters,
            0);
  // The frozen weights of the first checkpoint, without its adapters.
  checkpoint::Merged made =
      checkpoint::merge_adapters(checkpoint::CheckpointReader(folder.path() / "1"), base, "test");
  EXPECT_GT(made.tensors, 0);
  EXPECT_GT(checkpoint::import_peft(base, peft, folder.path() / "again", "test"), 0);
  EXPECT_LT(distance(logits_of(folder.path() / "again", c), tuned), 1e-6);
  expect_the_same_over_the_base(base, folder.path() / "again", {peft, folder.path() / "2"}, c);
  EXPECT_THROW(checkpoint::export_hf(folder.path() / "2", folder.path() / "hf", {}), Error);
  EXPECT_THROW(checkpoint::merge_adapters(checkpoint::CheckpointReader(merged),
                                          folder.path() / "twice", "test"),
               Error);
}

config::RunConfig adapted(model::Family family) {
  config::RunConfig c = train::tiny(family);
  c.lora.rank = 3;
  c.lora.alpha = 24;
  c.lora.targets = {"*.attn.*"};
  if (family == model::Family::kDeepseekV2 || family == model::Family::kDeepseekV3)
    c.lora.targets = {"o_proj", "kv_b_proj"};  // one adapter of theirs for each of ours
  if (c.model.experts == 0) c.lora.targets.push_back("*.mlp.down.weight");
  return c;
}

TEST_P(EveryFamily, MergedWeightsAndPeftFoldersGiveTheLogitsOfTheAdapters) {
  expect_the_same_logits(adapted(GetParam()));
}

TEST_P(EveryFamily, TheSameWithDoraAndScaledByTheRootOfTheRank) {
  config::RunConfig c = adapted(GetParam());
  c.lora.kind = compile::AdapterKind::kDora;
  c.lora.scaling = compile::AdapterScaling::kRslora;
  c.lora.alpha = 8;
  expect_the_same_logits(c);
}

// Every command dequantizes weights in 4 bits.
TEST(Adapters, OnWeightsInFourBitsTheSame) {
  for (const model::Family family : {model::Family::kLlama, model::Family::kNeox}) {
    config::RunConfig c = train::quantized(family);
    c.lora.alpha = 24;
    expect_the_same_logits(c);
  }
}

// Weights in 4 bits without adapters of their own are a base, too.
TEST(Adapters, OverABaseInFourBitsTheSame) {
  config::RunConfig c = train::quantized(model::Family::kLlama);
  c.lora.targets = {"q_proj", "down_proj"};
  checkpoint::TemporaryFolder folder;
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  trainer.initialize();
  data::BatchSource source = train::batches(c);
  for (int s = 1; s <= 3; ++s) trainer.step(s, 2e-2, source);
  checkpoint::save(folder.path(), header_of(c, 1), trainer.state());
  std::vector<checkpoint::StateTensor> frozen = trainer.state();
  std::erase_if(frozen, [](const auto& t) { return t.name.find(".lora_") != std::string::npos; });
  checkpoint::save(folder.path(), header_of(c, 2), frozen);
  const Path peft = folder.path() / "peft";
  EXPECT_GT(
      checkpoint::export_peft(checkpoint::CheckpointReader(folder.path() / "1"), peft, "").adapters,
      0);
  EXPECT_FALSE(checkpoint::CheckpointReader(folder.path() / "2").quantized().empty());
  expect_the_same_over_the_base(folder.path() / "2", folder.path() / "1",
                                {peft, folder.path() / "1"}, c);
}

// Adapters of one rank, alpha and kind replace each other in a loaded model. Others need a new one.
TEST(Adapters, ReplaceEachOtherInALoadedModel) {
  checkpoint::TemporaryFolder folder;
  config::RunConfig c = train::tiny(model::Family::kLlama);
  c.model.init_std *= 4;
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  trainer.initialize();
  checkpoint::save(folder.path(), header_of(c, 1), trainer.state());
  data::IndexedDatasetWriter writer(folder.path() / "d", DType::kU16);
  std::vector<int32_t> document;
  for (int i = 0; i < 400; ++i) document.push_back(i * i % 89 + 1);
  writer.add_document(document);
  writer.commit("{}");
  data::DatasetSpec spec;
  spec.datasets = {{(folder.path() / "d").string(), 1}};
  spec.sequence_length = 16;
  spec.vocabulary = c.model.padded_vocabulary();
  const data::ValidationData data(spec);

  checkpoint::CheckpointReader reader(folder.path() / "1");
  const auto loss = [&] { return ScoreModel(reader, data, {}).read(0).loss(); };
  const auto with = [&](const char* name, const checkpoint::PeftFolder& f) {
    checkpoint::write_peft(folder.path() / name, c.model, f);
    return adapters_in(folder.path() / name, reader);
  };
  const auto first = with("a", {.seed = 1});
  // The order of target_modules has no meaning.
  const auto second = with("b", {.targets = {"v_proj", "q_proj"}, .seed = 2});
  std::vector<double> seen;
  reader.use_adapters(first);
  int64_t scored = 0, complete = 0;  // samples of the last report, reports of all samples
  ModelOptions options;
  options.on_progress = [&](int64_t done, int64_t all) {
    EXPECT_GT(done, scored);
    EXPECT_EQ(all, data.samples());
    scored = done == all ? 0 : done;
    complete += done == all ? 1 : 0;
  };
  ScoreModel model(reader, data, options);
  for (const auto& adapters : {first, second, first}) {
    reader.use_adapters(adapters);
    ASSERT_TRUE(model.replace_adapters(reader));
    seen.push_back(model.read(0).loss());
    EXPECT_EQ(complete, std::ssize(seen));
    EXPECT_EQ(seen.back(), loss());
  }
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_GT(std::abs(seen[0] - seen[1]), 1e-4);
  for (const checkpoint::PeftFolder& other : {checkpoint::PeftFolder{.rank = 3},
                                              {.alpha = 16},
                                              {.rslora = true},
                                              {.dora = true},
                                              {.targets = {"q_proj"}}}) {
    reader.use_adapters(with("other", other));
    EXPECT_FALSE(model.replace_adapters(reader));
  }
  reader.use_adapters(nullptr);
  EXPECT_FALSE(model.replace_adapters(reader));
  EXPECT_GT(std::abs(seen[0] - loss()), 1e-4);
}

// Frozen matrices of adapters are not weights of the model: they are stored and merged as they are.
TEST(Adapters, FrozenOnesAreNotQuantized) {
  config::RunConfig c = train::quantized(model::Family::kLlama);
  c.optimizer.freeze = {"*.lora_a"};
  c.lora.alpha = 24;
  expect_the_same_logits(c);
  c.optimizer.freeze = {"*.mlp.*"};
  expect_the_same_logits(c);
}

// A weight with some of its stored values is damaged, whichever are missing.
TEST(Adapters, IncompleteWeightsInFourBitsAreDamage) {
  const config::RunConfig c = train::quantized(model::Family::kLlama);
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  trainer.initialize();
  for (const char* missing :
       {"layer0.attn.qkv.q.nf4", "layer1.attn.qkv.k.nf4_scales", "layer0.attn.out.nf4_levels"}) {
    checkpoint::TemporaryFolder folder;
    std::vector<checkpoint::StateTensor> state = trainer.state();
    EXPECT_EQ(std::erase_if(state, [&](const auto& t) { return t.name == missing; }), 1);
    checkpoint::save(folder.path(), header_of(c, 1), state);
    EXPECT_THROW(checkpoint::CheckpointReader(folder.path() / "1"), checkpoint::DamagedCheckpoint)
        << missing;
  }
}

TEST(Average, OfWeightsInFourBitsIsRejected) {
  checkpoint::TemporaryFolder folder;
  const config::RunConfig c = train::quantized(model::Family::kLlama);
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  trainer.initialize();
  for (const int64_t step : {1, 2})
    checkpoint::save(folder.path(), header_of(c, step), trainer.state());
  const std::vector<Path> both = {folder.path() / "1", folder.path() / "2"};
  EXPECT_THROW(checkpoint::average_checkpoints(both, folder.path() / "mean", "test"), Error);
}

TEST(Average, IsTheMeanOfEachWeight) {
  checkpoint::TemporaryFolder folder;
  const config::RunConfig c = train::tiny(model::Family::kLlama);
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  std::vector<std::vector<float>> seen;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    trainer.engine().initialize(seed);
    for (const checkpoint::StateTensor& t : trainer.state())
      if (t.name == "layer1.attn.out.weight")
        seen.emplace_back(t.data.f32(), t.data.f32() + t.data.elements());
    checkpoint::save(folder.path(), header_of(c, static_cast<int64_t>(seed)), trainer.state());
  }
  const std::vector<Path> all = {folder.path() / "1", folder.path() / "3", folder.path() / "2"};
  int64_t last = -1, number = 0;
  const checkpoint::Averaged made =
      checkpoint::average_checkpoints(all, folder.path() / "mean", "test",
                                      [&](int64_t done, int64_t of) { last = done, number = of; });
  EXPECT_EQ(last, made.tensors - 1);
  EXPECT_EQ(number, made.tensors);
  checkpoint::CheckpointReader mean(folder.path() / "mean");
  EXPECT_EQ(mean.header().step, 3);
  EXPECT_EQ(mean.find("layer1.attn.out.weight|moment1"), nullptr);
  const checkpoint::StoredTensor* t = mean.find("layer1.attn.out.weight");
  ASSERT_NE(t, nullptr);
  std::vector<float> values(static_cast<size_t>(t->shape.elements()));
  mean.read(t->name, {values.data(), DType::kF32, t->shape});
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], (seen[0][i] + seen[1][i] + seen[2][i]) / 3, 1e-7);
  EXPECT_THROW(checkpoint::average_checkpoints({all.data(), 1}, folder.path() / "one", "test"),
               Error);
  EXPECT_THROW(checkpoint::average_checkpoints(all, folder.path() / "mean", "test"), Error);
}

}  // namespace
}  // namespace tessera::eval
