// Token by token, with what was kept of the ones before, a model says what it says of all at once.
#include "eval/language_model.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/eval/fresh_model.h"

namespace tessera::eval {
namespace {

class Decoding : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Decoder, Decoding, testing::ValuesIn(every_family()));

void expect_the_same_token_by_token(const config::RunConfig& c) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), c));
  std::vector<int32_t> tokens, source;
  for (int32_t i = 0; i < 20; ++i) tokens.push_back((i * 7 + 3) % 96);
  if (model::rule_of(c.model.family).has_encoder) source = {5, 9, 81, 2, 44, 7, 1, 0, 0};  // padded
  LogitsModel all(reader, 1, 20, {}, static_cast<int64_t>(source.size()));
  const std::span<const float> wanted = all.read(tokens, source);
  const size_t vocabulary = wanted.size() / tokens.size();
  Decoder decoder(reader, {}, source);
  // Prompts that are read one by one, in one piece, and in a piece and one by one.
  for (const size_t prompt : {1u, 16u, 18u}) {
    decoder.forget();
    for (size_t t = 0, n = prompt; t < tokens.size(); t += n, n = 1) {
      const std::span<const float> got = decoder.read(std::span(tokens).subspan(t, n));
      for (size_t v = 0; v < vocabulary; ++v)
        ASSERT_NEAR(got[v], wanted[(t + n - 1) * vocabulary + v], 2e-5)
            << "prompt of " << prompt << ", token " << t << " logit " << v;
    }
  }
}

TEST_P(Decoding, TokenByTokenEqualsAllAtOnce) {
  expect_the_same_token_by_token(train::tiny(GetParam()));
}

// Each layer has a cache of its own, whichever kind it is.
TEST(DecodingStacks, TokenByTokenEqualsAllAtOnce) {
  for (const model::Family family : every_decoder()) {
    config::RunConfig c = train::tiny(family);
    c.model.layers = 5;
    // All layers of latent attention have RoPE.
    if (model::rule_of(family).has_rope && !model::rule_of(family).latent)
      c.model.no_rope_layers = {1, 4};
    c.model.wide_layers = {0, 1, 2};
    c.model.wide_feed_forward = 48;
    expect_the_same_token_by_token(c);
  }
}

}  // namespace
}  // namespace tessera::eval
