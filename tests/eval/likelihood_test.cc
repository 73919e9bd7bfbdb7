// What is said of a continuation is what a decoder says that reads it token by token.
#include "eval/likelihood.h"

#include <cmath>

#include "checkpoint/hf_folder.h"
#include "eval/evaluate.h"
#include "eval/generate.h"
#include "tests/checkpoint/peft_folder.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/data/dataset_fixture.h"
#include "tests/eval/fresh_model.h"

namespace tessera::eval {
namespace {

config::RunConfig letters(model::Family family) {
  config::RunConfig c = train::tiny(family);
  c.model.vocabulary = 260;
  c.model.init_std *= 4;  // far from equally likely
  return c;
}

double log_of(std::span<const float> logits, int32_t token) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  return logits[static_cast<size_t>(token)] - std::log(sum);
}

// Token by token.
double one_by_one(checkpoint::CheckpointReader& reader, const Continuation& c) {
  const bool encodes = model_of(reader).encoder_layers > 0;
  Decoder decoder(reader, {}, encodes ? c.context : std::vector<int32_t>());
  std::span<const float> logits = decoder.read(encodes ? std::vector<int32_t>{0} : c.context);
  double sum = 0;
  for (size_t t = 0; t < c.tokens.size(); ++t) {
    sum += log_of(logits, c.tokens[t]);
    if (t + 1 < c.tokens.size()) logits = decoder.read({&c.tokens[t], 1});
  }
  return sum;
}

class Likelihoods : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(EveryFamily, Likelihoods, testing::ValuesIn(every_family()));

TEST_P(Likelihoods, OfManyAreThoseOfEachTokenByToken) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), letters(GetParam())));
  const data::ByteTokenizer tokenizer;
  const SpecialTokenRules rules = text_rules(reader, tokenizer);
  std::vector<Continuation> asked;
  for (const char* context : {"Is it?", "A", "Both of them ", ""})
    for (const char* text : {" yes", " no, not at", "1"})
      asked.push_back(encode_continuation(tokenizer, rules, context, text));
  const std::vector<Likelihood> found = likelihoods(reader, {nullptr}, asked, {})[0];
  for (size_t i = 0; i < asked.size(); ++i)
    EXPECT_NEAR(found[i].log, one_by_one(reader, asked[i]), 1e-4) << i;
}

TEST_P(Likelihoods, TheMostProbableTextIsGreedy) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), letters(GetParam())));
  const bool encodes = model_of(reader).encoder_layers > 0;
  const std::vector<int32_t> context = {72, 101, 121};
  Decoder decoder(reader, {}, encodes ? context : std::vector<int32_t>());
  GenerateOptions o;
  o.sampling.choice.temperature = 0;
  o.max_tokens = 5;
  std::vector<int32_t> best = generate(decoder, encodes ? std::vector<int32_t>{0} : context, o);
  std::vector<int32_t> other = best;
  other.back() = (other.back() + 1) % 250;
  const Continuation asked[] = {{context, best}, {context, other}};
  const std::vector<Likelihood> found = likelihoods(reader, {nullptr}, asked, {})[0];
  EXPECT_TRUE(found[0].greedy);
  EXPECT_FALSE(found[1].greedy);
  EXPECT_GT(found[0].log, found[1].log);
}

TEST_P(Likelihoods, AnswersAreWhatAModelWritesOfEachContextAlone) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointReader reader(fresh_model(folder.path(), letters(GetParam())));
  const data::ByteTokenizer tokenizer;
  SpecialTokenRules rules = text_rules(reader, tokenizer);
  TaskSpec spec;
  spec.kind = TaskKind::kExactMatch;
  spec.max_tokens = 6;
  std::vector<Example> examples;
  for (const char* context : {"One", "Two of the letters", "Three "})
    examples.push_back({std::ssize(examples) + 1, {{context, ""}}, 0, "", ""});
  const auto found = write_answers(reader, {nullptr}, tokenizer, spec, examples, {})[0];
  GenerateOptions o;
  o.sampling.choice.temperature = 0;
  o.max_tokens = 6;
  o.vocabulary = rules.vocabulary;
  o.stops = rules.stops;
  for (size_t i = 0; i < examples.size(); ++i) {
    const char* const contexts[] = {"One", "Two of the letters", "Three"};
    const std::vector<int32_t> ids = encode_text(rules, tokenizer, contexts[i]);
    Decoder decoder(reader, {}, rules.has_encoder ? ids : std::vector<int32_t>());
    const auto alone = generate(decoder, rules.has_encoder ? std::vector<int32_t>{0} : ids, o);
    EXPECT_EQ(found[i].line, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(found[i].written, written_text(tokenizer, alone));
  }
}

// Returns options whose reports are added to `reports` as (done, all).
ModelOptions reported_to(std::vector<std::pair<int64_t, int64_t>>& reports) {
  ModelOptions options;
  options.on_progress = [&](int64_t done, int64_t all) { reports.emplace_back(done, all); };
  return options;
}

// Expects that the reports increase up to `all` items.
void expect_reports(const std::vector<std::pair<int64_t, int64_t>>& reports, int64_t all) {
  ASSERT_FALSE(reports.empty());
  for (size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].second, all);
    EXPECT_GT(reports[i].first, i == 0 ? 0 : reports[i - 1].first);
  }
  EXPECT_EQ(reports.back().first, all);
}

// Several adapters in one call give what each gives alone, in a model with an encoder, too.
TEST(LikelihoodsOfAdapters, AreThoseOfEachAlone) {
  for (const model::Family family : {model::Family::kLlama, model::Family::kT5}) {
    checkpoint::TemporaryFolder folder;
    const config::RunConfig c = letters(family);
    checkpoint::CheckpointReader reader(fresh_model(folder.path(), c));
    AdapterList list = {nullptr};
    for (const int64_t rank : {2, 2, 3}) {
      const Path path = folder.path() / std::to_string(list.size());
      checkpoint::write_peft(path, c.model,
                             {.targets = family == model::Family::kT5
                                             ? std::vector<std::string>{"q", "wo"}
                                             : std::vector<std::string>{"q_proj", "down_proj"},
                              .rank = rank,
                              .seed = list.size()});
      list.push_back(std::make_shared<const checkpoint::StoredAdapters>(
          checkpoint::read_adapters(path, model_of(reader))));
    }
    const data::ByteTokenizer tokenizer;
    const SpecialTokenRules rules = text_rules(reader, tokenizer);
    std::vector<Continuation> asked;
    std::vector<Example> examples;
    for (const char* context : {"One", "Two of the letters in this"}) {
      asked.push_back(encode_continuation(tokenizer, rules, context, " yes"));
      examples.push_back({std::ssize(examples) + 1, {{context, ""}}, 0, "", ""});
    }
    TaskSpec spec;
    spec.kind = TaskKind::kExactMatch;
    spec.max_tokens = 6;
    std::vector<std::pair<int64_t, int64_t>> computed, generated;
    const auto all = likelihoods(reader, list, asked, reported_to(computed));
    const auto written =
        write_answers(reader, list, tokenizer, spec, examples, reported_to(generated));
    expect_reports(computed, std::ssize(list) * std::ssize(asked));
    expect_reports(generated, std::ssize(list) * std::ssize(examples));
    for (size_t a = 0; a < list.size(); ++a) {
      const auto alone = likelihoods(reader, {list[a]}, asked, {})[0];
      const auto text = write_answers(reader, {list[a]}, tokenizer, spec, examples, {})[0];
      for (size_t i = 0; i < asked.size(); ++i) {
        EXPECT_EQ(all[a][i].log, alone[i].log);
        EXPECT_EQ(written[a][i].written, text[i].written);
        EXPECT_TRUE(a == 0 || all[a][i].log != all[a - 1][i].log);
      }
    }
  }
}

TEST(EncodeContinuation, KeepsToWhatStandsAroundATextThatIsRead) {
  const data::ByteTokenizer tokenizer;
  SpecialTokenRules rules;
  rules.alone = 256;
  Continuation c = encode_continuation(tokenizer, rules, "a ", "b");
  EXPECT_EQ(c.context, (std::vector<int32_t>{'a'}));
  EXPECT_EQ(c.tokens, (std::vector<int32_t>{' ', 'b'}));
  EXPECT_EQ(encode_continuation(tokenizer, rules, "", "b").context, std::vector<int32_t>{256});
  rules.begin = '^';
  c = encode_continuation(tokenizer, rules, "a ", "b");
  EXPECT_EQ(c.context, (std::vector<int32_t>{'^', 'a'}));
  EXPECT_EQ(c.tokens, (std::vector<int32_t>{' ', 'b'}));
  EXPECT_EQ(encode_continuation(tokenizer, rules, "", "b").context, std::vector<int32_t>{'^'});
  rules.has_encoder = true;
  rules.end = 256;
  c = encode_continuation(tokenizer, rules, "a ", "b");
  EXPECT_EQ(c.context, (std::vector<int32_t>{'^', 'a', 256}));
  EXPECT_EQ(c.tokens, (std::vector<int32_t>{' ', 'b'}));
  EXPECT_EQ(encode_continuation(tokenizer, rules, " ", "b").context,
            (std::vector<int32_t>{'^', 256}));
  EXPECT_EQ(encode_continuation(tokenizer, rules, "", "b").context, std::vector<int32_t>{256});
}

// As a folder of Hugging Face says it, kept by its import.
TEST(SpecialTokenRules, AnImportedModelStopsWhereItsFolderSays) {
  checkpoint::TemporaryFolder folder;
  checkpoint::CheckpointHeader h;
  h.model = to_tree(train::tiny(model::Family::kLlama).model);
  h.state = Tree::object();
  const data::ByteTokenizer tokenizer;
  const auto rules = [&](const char* state) {
    h.state = parse_json(state, "state");
    return checkpoint::hf_text_rules(h);
  };
  EXPECT_EQ(rules(R"({"imported_from": "x", "stops": [3, 7], "begin": 1})").stops,
            (std::vector<int32_t>{3, 7}));
  EXPECT_EQ(rules(R"({"imported_from": "x", "begin": 1})").begin, 1);
  EXPECT_EQ(rules(R"({"imported_from": "x"})").begin, std::nullopt);
  EXPECT_TRUE(rules(R"({"stops": [3]})").stops.empty());
}

}  // namespace
}  // namespace tessera::eval
