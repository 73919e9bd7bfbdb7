#include "train/run_position.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "checkpoint/index.h"
#include "tests/data/dataset_fixture.h"
#include "train/run_programs.h"
#include "train/training_input.h"

namespace tessera::train {
namespace {

constexpr int64_t kVocabulary = 1 << 20;
constexpr int64_t kT = 6;

// A run of this test is random, and the same in every process.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t in(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int64_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

// The samples of a step, in the order of their numbers: the first token of each, which no other
// sample of the epoch has.
using Step = std::vector<int32_t>;

class RunPositionTest : public data::DatasetFixture {
 protected:
  // Documents of 3 to 14 tokens; no token appears twice in all data sets.
  std::string numbered_set(const std::string& name, int documents) {
    std::vector<std::vector<int32_t>> all;
    first_token_[path(name)] = next_;
    for (int d = 0; d < documents; ++d) {
      std::vector<int32_t> ids(static_cast<size_t>(3 + d * 5 % 12));
      for (int32_t& id : ids) id = next_++;
      all.push_back(std::move(ids));
    }
    return dataset(name, all, DType::kI32);
  }

  config::RunConfig config_of(const std::vector<config::DataSource>& sets) const {
    config::RunConfig c;
    c.data.train = sets;
    c.data.sequence_length = kT;
    c.data.allow_foreign_tokenizer = true;
    c.run.seed = 5;
    c.schedule.steps = 1'000'000;
    return c;
  }

  // Returns the position that a checkpoint of that step restores, through the text of its index.
  std::optional<RunPosition> stored(const config::RunConfig& config, TrainingInput& input,
                                    int64_t step) {
    checkpoint::CheckpointIndex index;
    index.header.step = step;
    index.header.config = tessera::to_tree(config);
    index.header.model = tessera::to_tree(config.model);
    index.header.state.set("data", input.position_after(step));
    const checkpoint::CheckpointIndex read =
        checkpoint::parse_index(checkpoint::to_text(index), "index.json");
    return position_of(read.header, "checkpoint", tokenizer_);
  }

  // One process per data rank: step `step` (from 1) as all of them read it.
  Step read_step(std::vector<std::unique_ptr<TrainingInput>>& ranks, int64_t step) const {
    std::map<int64_t, int32_t> samples;
    for (auto& input : ranks) {
      data::BatchSource& source = input->batches();
      const data::BatchShape& shape = source.shape();
      const auto b = static_cast<size_t>(shape.micro), t = static_cast<size_t>(kT);
      std::vector<int32_t> tokens(b * t), labels(b * t), positions(b * t);
      std::vector<int64_t> numbers(b);
      for (int64_t m = 0; m < shape.microbatches(step - 1); ++m) {
        source.fill(step - 1, m, {tokens, labels, positions, numbers});
        for (size_t i = 0; i < b; ++i) {
          EXPECT_TRUE(samples.emplace(numbers[i], tokens[i * t]).second) << "sample " << numbers[i];
        }
      }
    }
    Step out;
    for (const auto& [number, token] : samples) out.push_back(token);
    return out;
  }

  // Random batch, ramp and layout.
  static void change_shape(config::RunConfig& c, Random& random) {
    c.layout.data = random.in(1, 8);
    c.layout.tensor = random.in(1, 2);
    c.layout.pipeline = random.in(1, 2);
    c.batch.micro = random.in(1, 3);
    const int64_t together = c.layout.data * c.batch.micro;
    c.batch.global = together * random.in(1, 4);
    c.batch.warmup_sizes.clear();
    c.batch.warmup_steps_per_size = 0;
    if (random.chance(40)) {
      c.batch.warmup_steps_per_size = random.in(1, 6);
      for (int64_t n = random.in(1, 3); n > 0; --n)
        c.batch.warmup_sizes.push_back(together * random.in(1, 4));
    }
  }

  std::vector<std::unique_ptr<TrainingInput>> start(const config::RunConfig& c,
                                                    const std::optional<RunPosition>& from) const {
    std::vector<std::unique_ptr<TrainingInput>> ranks;
    for (int64_t rank = 0; rank < c.layout.data; ++rank) {
      ranks.push_back(std::make_unique<TrainingInput>(c, tokenizer_));
      ranks.back()->begin(c, rank, from);
    }
    return ranks;
  }

  // A run that is stopped, killed and resumed; returns the samples of its surviving line.
  Step surviving_line(config::RunConfig c, Random& random) {
    std::vector<Step> line;
    std::optional<RunPosition> saved;
    for (int64_t sessions = random.in(2, 6); sessions > 0; --sessions) {
      if (!saved || random.chance(70)) change_shape(c, random);
      auto ranks = start(c, saved);
      int64_t step = saved ? saved->step : 0;
      const int64_t last = step + random.in(0, 7), every = random.in(1, 4);
      while (step < last) {
        ++step;
        line.push_back(read_step(ranks, step));
        EXPECT_EQ(std::ssize(line.back()), ranks[0]->sequences_of(step));
        if (step % every == 0) saved = stored(c, *ranks.back(), step);
      }
      const bool killed = random.chance(50);
      if (!killed) saved = stored(c, *ranks.front(), step);
      line.resize(static_cast<size_t>(saved ? saved->step : 0));
    }
    Step all;
    for (const Step& s : line) all.insert(all.end(), s.begin(), s.end());
    return all;
  }

  // The first samples of the run as one process reads them that is never stopped.
  Step reference(config::RunConfig c, size_t samples) {
    c.layout.data = c.batch.micro = c.batch.global = 1;
    c.batch.warmup_sizes.clear();
    c.batch.warmup_steps_per_size = 0;
    auto ranks = start(c, {});
    Step all;
    for (int64_t step = 1; all.size() < samples; ++step) all.push_back(read_step(ranks, step)[0]);
    return all;
  }

  data::ByteTokenizer tokenizer_;
  int32_t next_ = 1;
  std::map<std::string, int32_t> first_token_;  // of a set
};

int sequences() {
  const char* more = std::getenv("TESSERA_SEQUENCES");
  return more != nullptr ? std::atoi(more) : 60;
}

// For any sequence of batch sizes, ramps, layouts, stops and kills the samples seen are a prefix of
// the order, each once. TESSERA_SEQUENCES=1000 tries more of them.
TEST_F(RunPositionTest, A2_F2_AnySequenceOfResumesReadsAPrefixOfTheOrder) {
  config::RunConfig c = config_of({{numbered_set("a", 40), 3}, {numbered_set("b", 25), 1}});
  c.model.vocabulary = kVocabulary;
  c.data.stages = {{300, {{path("b"), 1}, {numbered_set("c", 30), 2}}}, {700, {{path("a"), 1}}}};
  config::RunConfig chat = config_of({});
  chat.model.vocabulary = 257;
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += fmt::format("{{\"prompt\":\"{}\",\"response\":\"abc\"}}\n", static_cast<char>(48 + i));
  chat.data.instructions = {put("i.jsonl", lines)};
  chat.data.form = "{prompt}{response}";
  size_t seen = 0;
  for (int s = 0; s < sequences(); ++s) {
    Random random(static_cast<uint64_t>(s));
    const config::RunConfig& run = s % 5 == 4 ? chat : c;
    const Step line = surviving_line(run, random);
    ASSERT_EQ(line, reference(run, line.size())) << "sequence " << s;
    seen += line.size();
  }
  EXPECT_GT(seen, static_cast<size_t>(sequences()) * 10);
}

// Sources come, go and change their weights: each continues at its own place, so nothing of it is
// read twice or left out.
TEST_F(RunPositionTest, A2_AChangedBlendRepeatsNothing) {
  const std::vector<std::string> names = {numbered_set("a", 60), numbered_set("b", 50),
                                          numbered_set("c", 70), numbered_set("d", 40)};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    std::optional<RunPosition> saved;
    std::vector<int32_t> line;
    config::RunConfig c;
    for (int session = 0; session < 5; ++session) {
      std::vector<config::DataSource> sets;
      for (const std::string& name : names)
        if (random.chance(60)) sets.push_back({name, static_cast<double>(random.in(1, 5))});
      if (sets.empty()) sets.push_back({names[0], 1});
      if (session == 0 || random.chance(70)) c = config_of(sets);
      c.model.vocabulary = kVocabulary;
      change_shape(c, random);
      auto ranks = start(c, saved);
      int64_t step = saved ? saved->step : 0;
      for (int64_t n = random.in(1, 4); n > 0; --n) {
        const Step read = read_step(ranks, ++step);
        line.insert(line.end(), read.begin(), read.end());
      }
      saved = stored(c, *ranks[0], step);
    }
    std::map<std::string, std::vector<int32_t>> by_source;
    for (const int32_t token : line) {
      size_t i = 0;
      while (i + 1 < names.size() && token >= first_token_[names[i + 1]]) ++i;
      by_source[names[i]].push_back(token);
    }
    for (const auto& [name, tokens] : by_source) {
      config::RunConfig alone = config_of({{name, 1}});
      alone.model.vocabulary = kVocabulary;
      EXPECT_EQ(tokens, reference(alone, tokens.size())) << name << " of " << seed;
    }
  }
}

TEST_F(RunPositionTest, A2_ACheckpointWithoutAPositionHasConsumedItsOwnBatches) {
  config::RunConfig c = config_of({{numbered_set("a", 90), 2}, {numbered_set("b", 90), 1}});
  c.model.vocabulary = kVocabulary;
  c.batch.global = 8;
  c.batch.micro = 2;
  c.batch.warmup_sizes = {4, 6};
  c.batch.warmup_steps_per_size = 2;
  checkpoint::CheckpointHeader old;
  old.step = 5;
  old.config = tessera::to_tree(c);
  const RunPosition p = position_of(old, "old", tokenizer_);
  EXPECT_EQ(p.data.samples, 4 + 4 + 6 + 6 + 8);
  config::RunConfig now = c;
  now.batch.global = 1;
  now.batch.micro = 1;
  now.batch.warmup_sizes = {};
  now.batch.warmup_steps_per_size = 0;
  auto ranks = start(now, p);
  const Step all = reference(c, 40);
  EXPECT_EQ(read_step(ranks, 6), (Step{all[28]}));
  EXPECT_EQ(read_step(ranks, 7), (Step{all[29]}));
  EXPECT_EQ(ranks[0]->tokens_after(3), 14 * kT);
  EXPECT_EQ(ranks[0]->tokens_after(7), 30 * kT);
}

TEST_F(RunPositionTest, M13_OtherDataUnderTheNameIsRefused) {
  config::RunConfig c = config_of({{numbered_set("a", 30), 1}, {numbered_set("b", 30), 1}});
  c.model.vocabulary = kVocabulary;
  auto ranks = start(c, {});
  read_step(ranks, 1);
  read_step(ranks, 2);
  const auto saved = stored(c, *ranks[0], 2);
  const std::string before = saved->data.sources[1].identity;
  EXPECT_NO_THROW(start(c, saved));
  numbered_set("b", 31);
  const std::string why = data::error_of([&] { start(c, saved); });
  EXPECT_TRUE(data::contains(why, "b: the checkpoint was trained on other data")) << why;
  EXPECT_TRUE(data::contains(why, before)) << why;
  EXPECT_TRUE(data::contains(why, "allow_changes=true")) << why;
  c.checkpoint.allow_changes = true;
  ranks = start(c, saved);
  const RunPosition now = *stored(c, *ranks[0], 2);
  EXPECT_EQ(now.data.sources[0].samples, saved->data.sources[0].samples);
  EXPECT_EQ(now.data.sources[1].samples, now.data.sources[1].epoch_samples);  // the next epoch
  // A set that was moved is found by its content.
  std::filesystem::rename(path("a.bin"), path("moved.bin"));
  std::filesystem::rename(path("a.idx"), path("moved.idx"));
  c.data.train[0].prefix = path("moved");
  ranks = start(c, saved);
  EXPECT_EQ(stored(c, *ranks[0], 2)->data.sources[0].samples, saved->data.sources[0].samples);
}

TEST_F(RunPositionTest, M13_ChangedInstructionsAreRefused) {
  config::RunConfig c = config_of({});
  c.model.vocabulary = 257;
  c.data.instructions = {put("i.jsonl", "{\"prompt\":\"a\",\"response\":\"b\"}\n")};
  c.data.form = "{prompt}{response}";
  auto ranks = start(c, {});
  const auto saved = stored(c, *ranks[0], 3);
  put("i.jsonl", "{\"prompt\":\"a\",\"response\":\"c\"}\n");
  EXPECT_TRUE(data::contains(data::error_of([&] { start(c, saved); }),
                             "trained on other data under this name"));
}

// Another length of samples: the order is another one, and starts with an epoch that was not begun.
TEST_F(RunPositionTest, A2_ALongerSampleStartsAnEpochOfItsOwn) {
  config::RunConfig c = config_of({{numbered_set("a", 90), 1}});
  c.model.vocabulary = kVocabulary;
  c.batch.global = 4;
  c.data.stages = {{200, {{numbered_set("b", 90), 1}}}};
  auto ranks = start(c, {});
  for (int64_t step = 1; step <= 3; ++step) read_step(ranks, step);
  const auto saved = stored(c, *ranks[0], 3);
  EXPECT_EQ(saved->data.tokens, 12 * kT);
  c.data.sequence_length = 2 * kT;
  TrainingInput longer(c, tokenizer_);
  longer.begin(c, 0, saved);
  EXPECT_EQ(longer.tokens_after(4), 12 * kT + 4 * 2 * kT);
  const auto next = stored(c, longer, 9);
  EXPECT_EQ(next->data.samples, 12 + 24);
  const data::SourcePosition& a = next->data.sources[0];
  // 128 tokens of the first stage were left: 11 samples of 12.
  EXPECT_EQ(a.samples - a.epoch_samples, 11);
  EXPECT_EQ(next->data.sources[1].samples, 13);
}

TEST_F(RunPositionTest, APositionThatCannotBeIsRefused) {
  config::RunConfig c = config_of({{numbered_set("a", 90), 2}, {numbered_set("b", 90), 1}});
  c.model.vocabulary = kVocabulary;
  TrainingInput input(c, tokenizer_);
  input.begin(c, 0, {});
  const std::string good = to_json(input.position_after(7));
  EXPECT_EQ(to_json(to_tree(position_from_tree(parse_json(good, "p"), 7, "p"))), good);
  EXPECT_THROW(position_from_tree(parse_json(good, "p"), 8, "p"), Error);
  Random random(1);
  const std::vector<std::string> numbers = {"-1",    "0",    "1",     "8",  "4611686018427387904",
                                            "1e300", "null", "\"a\"", "[]", "9007199254740993"};
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (int64_t n = random.in(1, 3); n > 0; --n) {
      std::vector<size_t> places;
      for (size_t at = 0; at < bad.size(); ++at)
        if (bad[at] == ':' && std::isdigit(static_cast<unsigned char>(bad[at + 1])) != 0)
          places.push_back(at + 1);
      if (places.empty()) break;
      const size_t at = places[static_cast<size_t>(random.below(std::ssize(places)))];
      const size_t end = bad.find_first_of(",}]", at);
      bad.replace(at, end - at, numbers[static_cast<size_t>(random.below(std::ssize(numbers)))]);
    }
    try {
      const RunPosition p = position_from_tree(parse_json(bad, "p"), 7, "p");
      c.checkpoint.allow_changes = random.chance(50);
      TrainingInput resumed(c, tokenizer_);
      resumed.begin(c, 0, p);
      resumed.position_after(9);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tessera::train
