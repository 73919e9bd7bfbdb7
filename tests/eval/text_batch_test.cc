// Many texts over one cache: each is what it is alone.
#include "eval/text_batch.h"

#include <array>
#include <deque>

#include "base/error.h"
#include "eval/batch_decoder.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/eval/fresh_model.h"

namespace tessera::eval {
namespace {

struct Result {
  std::vector<int32_t> tokens;
  std::vector<double> log_probabilities;
  Ending ending = Ending::kCancelled;
  bool done = false;
  bool operator==(const Result&) const = default;
};

std::vector<int32_t> ids(int32_t seed, int64_t length) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < length; ++i) out.push_back((i * 7 + seed * 13 + i * i * seed) % 96);
  return out;
}

TextRequest request(int32_t seed, int64_t length, int64_t tokens, double temperature) {
  TextRequest r;
  r.prompt = ids(seed, length);
  r.sampling.choice.temperature = temperature;
  r.max_tokens = tokens;
  r.seed = 3;
  r.sequence = static_cast<uint64_t>(seed);
  r.top_probabilities = 0;
  return r;
}

void collect(TextRequest& r, Result& result) {
  r.each = [&](const NewToken& t) {
    result.tokens.push_back(t.token);
    result.log_probabilities.push_back(t.log_probability);
    return true;
  };
  r.end = [&](Ending how) {
    result.ending = how;
    result.done = true;
  };
}

Result alone(BatchDecoder& decoder, TextRequest r) {
  TextBatch batch(decoder);
  Result out;
  collect(r, out);
  batch.add(std::move(r));
  while (!out.done) batch.step();
  return out;
}

// Requests of all kinds: short and long prompts, greedy and sampled.
std::vector<TextRequest> requests() {
  std::vector<TextRequest> out;
  for (int32_t i = 0; i < 23; ++i)
    out.push_back(request(i, 1 + i * 5 % 19, 1 + i % 5, i % 3 == 0 ? 0.0 : 0.5 + 0.1 * (i % 7)));
  return out;
}

class Batches : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, Batches, testing::ValuesIn(every_decoder()));

TEST_P(Batches, EveryTextIsWhatItIsAloneBitForBit) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), train::tiny(GetParam())));
  BatchDecoder single(reader, {.threads = 2}, {.slots = 1});
  std::vector<Result> expected;
  for (const TextRequest& r : requests()) expected.push_back(alone(single, r));
  for (const int64_t slots : {3, 16, 19}) {
    BatchDecoder decoder(reader, {.threads = 2}, {.slots = slots});
    TextBatch batch(decoder);
    std::vector<TextRequest> all = requests();
    std::deque<Result> results(all.size());
    size_t begun = 0;
    for (int64_t step = 0; begun < all.size() || batch.active() > 0; ++step) {
      ASSERT_LT(step, 1000);
      // Texts arrive at different times.
      for (int64_t n = 0; n < 1 + step % 3 && begun < all.size() && batch.has_room();
           ++n, ++begun) {
        collect(all[begun], results[begun]);
        batch.add(std::move(all[begun]));
      }
      batch.step();
    }
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(results[i], expected[i]) << i;
  }
}

// The logits of the batch are those of the decoder of one text.
TEST_P(Batches, LogitsEqualThoseOfTheDecoder) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), train::tiny(GetParam())));
  BatchDecoder batch(reader, {}, {.slots = 3});
  Decoder decoder(reader, {});
  const std::vector<int32_t> text = ids(2, 20), other = ids(5, 20);
  const auto width = static_cast<size_t>(batch.vocabulary());
  for (size_t t = 0; t < text.size(); ++t) {
    batch.step(std::array{SlotToken{0, other[t]}, SlotToken{2, text[t]}});
    const std::span<const float> got = batch.logits(2);
    const std::span<float> wanted = decoder.read({&text[t], 1});
    for (size_t v = 0; v < width; ++v) ASSERT_NEAR(got[v], wanted[v], 2e-5) << t << " " << v;
  }
}

// Whether a text is read token by token or in chunks does not change a bit.
TEST_P(Batches, ChunksHaveTheBitsOfSingleTokens) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), train::tiny(GetParam())));
  BatchDecoder decoder(reader, {}, {.slots = 2});
  const std::vector<int32_t> text = ids(1, 22);
  const auto width = static_cast<size_t>(decoder.vocabulary());
  std::vector<float> chunks;
  for (std::span<const int32_t> rest = text; !rest.empty();) {
    const auto [count, logits] = decoder.read(0, rest, LogitsOf::kEach);
    chunks.insert(chunks.end(), logits.begin(), logits.end());
    rest = rest.subspan(static_cast<size_t>(count));
  }
  ASSERT_EQ(chunks.size(), text.size() * width);
  for (size_t t = 0; t < text.size(); ++t) {
    decoder.step(std::array{SlotToken{1, text[t]}});
    const std::span<const float> logits = decoder.logits(1);
    for (size_t v = 0; v < width; ++v) ASSERT_EQ(logits[v], chunks[t * width + v]) << t << " " << v;
  }
}

class OneModel : public testing::Test {
 protected:
  OneModel()
      : reader_(fresh_model(folder_.path(), train::tiny(model::Family::kLlama))),
        decoder_(reader_, {}, {.slots = 2}) {}
  checkpoint::TemporaryFolder folder_;
  checkpoint::CheckpointReader reader_;
  BatchDecoder decoder_;
};

// A second text with the same beginning does not read it again, and says the same.
TEST_F(OneModel, ReusesTheBeginningOfAnEarlierText) {
  TextBatch batch(decoder_);
  const auto write = [&] {
    Result out;
    TextRequest r = request(4, 17, 4, 0.8);
    collect(r, out);
    batch.add(std::move(r));
    while (!out.done) batch.step();
    return out;
  };
  const Result first = write();
  EXPECT_EQ(batch.counts().reused_tokens, 0);
  EXPECT_EQ(batch.counts().prompt_tokens, 17);
  EXPECT_EQ(write(), first);
  EXPECT_EQ(batch.counts().reused_tokens, 16);
  EXPECT_EQ(batch.counts().prompt_tokens, 18);
}

// Two conversations begin with the same system message. Each stays in its slot while one is empty.
TEST_F(OneModel, AnotherConversationTakesAnEmptySlot) {
  TextBatch batch(decoder_);
  const std::vector<int32_t> system = ids(4, 8);
  std::array<std::vector<int32_t>, 3> talks{system, system, system};
  const auto reused_by_turn = [&](size_t talk) {
    talks[talk].push_back(static_cast<int32_t>(40 + talk));
    talks[talk].push_back(static_cast<int32_t>(50 + talk));
    const int64_t before = batch.counts().reused_tokens;
    TextRequest r = request(0, 1, 2, 0.0);
    r.prompt = talks[talk];
    Result out;
    collect(r, out);
    batch.add(std::move(r));
    while (!out.done) batch.step();
    talks[talk].insert(talks[talk].end(), out.tokens.begin(), out.tokens.end());
    return batch.counts().reused_tokens - before;
  };
  EXPECT_EQ(reused_by_turn(0), 0);
  EXPECT_EQ(reused_by_turn(1), 0);
  // All of the earlier turn but the last token of the answer, which no step has read.
  EXPECT_EQ(reused_by_turn(0), 11);
  EXPECT_EQ(reused_by_turn(1), 11);
  // No slot is empty: the beginning is found in one of them.
  EXPECT_EQ(reused_by_turn(2), 8);
}

TEST_F(OneModel, EndsAtAStopAtTheLengthAndWhenCancelled) {
  const Result free = alone(decoder_, request(4, 5, 6, 0));
  EXPECT_EQ(free.ending, Ending::kLength);
  ASSERT_EQ(free.tokens.size(), 6u);
  TextRequest stopped = request(4, 5, 6, 0);
  stopped.stops = {free.tokens[0]};
  const Result none = alone(decoder_, stopped);
  EXPECT_EQ(none.ending, Ending::kStop);
  EXPECT_TRUE(none.tokens.empty());
  // Not before min_tokens: another token is chosen.
  stopped.min_tokens = 2;
  const Result later = alone(decoder_, stopped);
  ASSERT_GE(later.tokens.size(), 2u);
  EXPECT_NE(later.tokens[0], free.tokens[0]);
  TextBatch batch(decoder_);
  Result cancelled;
  TextRequest r = request(4, 5, 6, 0);
  collect(r, cancelled);
  const int64_t slot = batch.add(std::move(r));
  batch.step();
  batch.cancel(slot);
  EXPECT_EQ(cancelled.ending, Ending::kCancelled);
  EXPECT_EQ(batch.active(), 0);
}

TEST_F(OneModel, ReportsTheProbabilitiesOfAPrompt) {
  TextRequest r = request(4, 9, 0, 0);
  r.prompt_probabilities = true;
  r.top_probabilities = 2;
  std::vector<NewToken> seen;
  bool done = false;
  r.each = [&](const NewToken& t) {
    seen.push_back(t);
    return true;
  };
  r.end = [&](Ending) { done = true; };
  TextBatch batch(decoder_);
  batch.add(r);
  while (!done) batch.step();
  ASSERT_EQ(seen.size(), 9u);
  BatchDecoder other(reader_, {}, {.slots = 1});
  for (size_t t = 0; t + 1 < seen.size(); ++t) {
    other.step(std::array{SlotToken{0, r.prompt[t]}});
    const std::span<const float> logits = other.logits(0);
    EXPECT_EQ(seen[t + 1].token, r.prompt[t + 1]);
    EXPECT_NEAR(seen[t + 1].log_probability, log_probability(logits, r.prompt[t + 1]), 1e-9);
    ASSERT_EQ(seen[t + 1].top.size(), 2u);
    EXPECT_EQ(seen[t + 1].top[0].token, most_probable(logits, 1)[0].token);
  }
}

TEST_F(OneModel, RefusesWhatDoesNotFit) {
  EXPECT_THROW(validate(request(1, 24, 1, 0), decoder_), Error);
  EXPECT_THROW(validate(request(1, 20, 5, 0), decoder_), Error);
  EXPECT_NO_THROW(validate(request(1, 20, 4, 0), decoder_));
  TextRequest empty = request(1, 0, 1, 0), strange = request(1, 3, 1, 0);
  EXPECT_THROW(validate(empty, decoder_), Error);
  strange.prompt[1] = 96;
  EXPECT_THROW(validate(strange, decoder_), Error);
  EXPECT_THROW(BatchDecoder(reader_, {}, {.slots = 0}), Error);
  EXPECT_THROW(BatchDecoder(reader_, {}, {.slots = 1, .context = 25}), Error);
  EXPECT_EQ(BatchDecoder(reader_, {}, {.slots = 1, .context = 11}).context(), 11);
}

}  // namespace
}  // namespace tessera::eval
