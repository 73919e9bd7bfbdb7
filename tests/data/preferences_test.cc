#include "data/preferences.h"

#include <algorithm>
#include <set>

#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

class PreferencesTest : public DatasetFixture {
 protected:
  InstructionSpec spec(const std::string& lines, int64_t length = 64) const {
    InstructionSpec s;
    s.files = {put("p.jsonl", lines)};
    s.sequence_length = length;
    s.seed = 5;
    return s;
  }
  PreferenceData pairs(const std::string& lines, int64_t length = 64) const {
    return {spec(lines, length), PreferenceUse::kPairs, tokenizer_};
  }
  std::string message(const InstructionSpec& s, PreferenceUse use = PreferenceUse::kPairs) const {
    return error_of([&] { PreferenceData(s, use, tokenizer_); });
  }
  // The text of one answer, with [ ] around what has a loss and | for end-of-text.
  std::string shown(const PreferenceData& data, int64_t pair, int64_t answer) const {
    std::string out;
    char before = 0;
    const auto flags = data.learned(pair, answer);
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] != before) out += flags[i] != 0 ? '[' : ']';
      before = flags[i];
      const int32_t id = data.ids(pair, answer)[i];
      out += id == 256 ? '|' : static_cast<char>(id);
    }
    return out;
  }
  ByteTokenizer tokenizer_;
};

struct Row {
  std::vector<int32_t> tokens, labels, positions, documents, answers;
  std::vector<double> references;
  explicit Row(int64_t t)
      : tokens(static_cast<size_t>(t), 7),
        labels(tokens),
        positions(tokens),
        documents(tokens),
        answers(tokens),
        references(kPreferenceFigures, 7) {}
  SampleRow view() { return {tokens, labels, positions, documents, {}, answers, references}; }
};

TEST_F(PreferencesTest, PairsHaveBothAnswersToOnePrompt) {
  const PreferenceData data = pairs(
      "{\"prompt\":\"two? \",\"chosen\":\"2\",\"rejected\":\"three\",\"margin\":0.5}\n"
      "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n");
  ASSERT_EQ(data.pairs(), 2);
  EXPECT_EQ(shown(data, 0, 0), "two? [2|");
  EXPECT_EQ(shown(data, 0, 1), "two? [three|");
  EXPECT_EQ(shown(data, 1, 0), "a[b|");
  EXPECT_EQ(shown(data, 1, 1), "a[c|");
  EXPECT_EQ(data.chosen_tokens(0), 2);
  EXPECT_EQ(data.counts().examples, 4);
  EXPECT_EQ(data.counts().rows, 2);
  EXPECT_EQ(data.counts().response_tokens, 2 + 6 + 2 + 2);
  EXPECT_TRUE(describe(data.counts()).starts_with("2 pairs in 2 rows · "))
      << describe(data.counts());
  EXPECT_EQ(to_json(*to_tree(data.counts()).find("pairs")), "2");
  EXPECT_EQ(data.counts().unread, std::vector<std::string>{});  // the margin is read
}

TEST_F(PreferencesTest, TheCommonBeginningIsThePromptOfPairsWithoutOne) {
  const PreferenceData data = pairs(
      "{\"chosen\":\"Hi there, yes\",\"rejected\":\"Hi there, yet\"}\n"
      "{\"chosen\":\"one two\",\"rejected\":\"one too\"}\n"
      // ä and ö begin with the same byte, which is not a character of its own
      "{\"chosen\":\"x\xc3\xa4\",\"rejected\":\"x\xc3\xb6\"}\n");
  EXPECT_EQ(shown(data, 0, 0), "Hi there, ye[s|");
  EXPECT_EQ(shown(data, 1, 0), "one t[wo|");
  EXPECT_EQ(shown(data, 2, 0), "x[\xc3\xa4|");
  EXPECT_EQ(shown(data, 2, 1), "x[\xc3\xb6|");
}

// Each row has both texts as documents of their own; the last token of each is only a label.
TEST_F(PreferencesTest, RowsHaveTwoDocuments) {
  PreferenceData data =
      pairs("{\"prompt\":\"ab\",\"chosen\":\"c\",\"rejected\":\"de\",\"margin\":0.25}\n", 12);
  data.set_references({-3, -4});
  Row row(12);
  data.read_pair(0, row.view());
  constexpr int32_t kNone = kIgnoredLabel;
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{'a', 'b', 'c', 'a', 'b', 'd', 'e', 0, 0, 0, 0, 0}));
  EXPECT_EQ(row.labels, (std::vector<int32_t>{kNone, 'c', 256, kNone, 'd', 'e', 256, kNone, kNone,
                                              kNone, kNone, kNone}));
  EXPECT_EQ(row.answers, (std::vector<int32_t>{-1, 0, 0, -1, 1, 1, 1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(row.documents, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 3, 7, 8, 9, 10, 11}));
  EXPECT_EQ(row.references, (std::vector<double>{-3, -4, 0.25}));
}

TEST_F(PreferencesTest, RowsPastTheEndOfABatchHaveNoAnswer) {
  PreferenceData data = pairs(
      "{\"prompt\":\"ab\",\"chosen\":\"c\",\"rejected\":\"de\"}\n"
      "{\"prompt\":\"fg\",\"chosen\":\"h\",\"rejected\":\"i\"}\n",
      12);
  data.set_references({-3, -4, -5, -6});
  Row both(24), last(12), cleared(12);
  both.references.assign(2 * kPreferenceFigures, 7);
  std::vector<int64_t> samples(2, 7);
  BatchView view{both.tokens, both.labels, both.positions, samples, both.documents};
  view.answers = both.answers;
  view.references = both.references;
  fill_pair_batch(data, 1, 2, view);
  data.read_pair(1, last.view());
  clear_row(0, cleared.view());
  const auto joined = [](const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
    std::vector<int32_t> all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  EXPECT_EQ(both.tokens, joined(last.tokens, cleared.tokens));
  EXPECT_EQ(both.labels, joined(last.labels, cleared.labels));
  EXPECT_EQ(both.answers, joined(last.answers, cleared.answers));
  EXPECT_EQ(both.documents, joined(last.documents, cleared.documents));
  EXPECT_EQ(both.references, (std::vector<double>{-5, -6, 0, 0, 0, 0}));
  EXPECT_EQ(samples, (std::vector<int64_t>{1, 2}));
}

// A reward model reads the score at the last token, which is part of the row.
TEST_F(PreferencesTest, ScoresAreAtTheLastTokens) {
  const PreferenceData data(spec("{\"prompt\":\"ab\",\"chosen\":\"c\",\"rejected\":\"de\"}\n", 10),
                            PreferenceUse::kScores, tokenizer_);
  Row row(10);
  data.read_pair(0, row.view());
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{'a', 'b', 'c', 256, 'a', 'b', 'd', 'e', 256, 0}));
  EXPECT_EQ(row.answers, (std::vector<int32_t>{-1, -1, -1, 0, -1, -1, -1, -1, 1, -1}));
}

// The second text of a kto row has the answer of the next example, for the estimate of the KL.
TEST_F(PreferencesTest, ExamplesArePairedWithTheNextAnswer) {
  const PreferenceData data(spec("{\"prompt\":\"a\",\"completion\":\"1\",\"label\":true}\n"
                                 "{\"prompt\":\"b\",\"completion\":\"2\",\"label\":false}\n"
                                 "{\"prompt\":\"c\",\"completion\":\"3\",\"label\":1}\n"),
                            PreferenceUse::kExamples, tokenizer_);
  ASSERT_EQ(data.pairs(), 3);
  EXPECT_EQ(shown(data, 0, 0), "a[1|");
  EXPECT_EQ(shown(data, 0, 1), "a[2|");
  EXPECT_EQ(shown(data, 2, 0), "c[3|");
  EXPECT_EQ(shown(data, 2, 1), "c[1|");
  Row row(64);
  std::vector<double> labels;
  for (int64_t i = 0; i < 3; ++i) {
    data.read_pair(i, row.view());
    labels.push_back(row.references[2]);
  }
  EXPECT_EQ(labels, (std::vector<double>{1, 0, 1}));
}

TEST_F(PreferencesTest, PairsAreTwoExamples) {
  const PreferenceData data(spec("{\"prompt\":\"a\",\"chosen\":\"1\",\"rejected\":\"2\"}\n"),
                            PreferenceUse::kExamples, tokenizer_);
  ASSERT_EQ(data.pairs(), 2);
  EXPECT_EQ(shown(data, 0, 0), "a[1|");
  EXPECT_EQ(shown(data, 1, 0), "a[2|");
  EXPECT_EQ(shown(data, 1, 1), "a[1|");
}

// The estimate of the KL divergence needs answers to other prompts.
TEST_F(PreferencesTest, TheSecondTextOfAnExampleAnswersAnotherPrompt) {
  const PreferenceData data(spec("{\"prompt\":\"a\",\"chosen\":\"1\",\"rejected\":\"2\"}\n"
                                 "{\"prompt\":\"b\",\"chosen\":\"3\",\"rejected\":\"4\"}\n"
                                 "{\"prompt\":\"a\",\"chosen\":\"5\",\"rejected\":\"6\"}\n"),
                            PreferenceUse::kExamples, tokenizer_);
  ASSERT_EQ(data.pairs(), 6);
  const char* const expected[] = {"a[3|", "a[3|", "b[5|", "b[5|", "a[3|", "a[3|"};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(shown(data, i, 1), expected[i]) << i;
}

TEST_F(PreferencesTest, EachEpochHasEachPairOnce) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += fmt::format("{{\"prompt\":\"p\",\"chosen\":\"{}\",\"rejected\":\"x\"}}\n", i);
  const PreferenceData data = pairs(lines);
  std::vector<int64_t> first, second;
  for (int64_t s = 0; s < 20; ++s) first.push_back(data.pair_of(s));
  for (int64_t s = 20; s < 40; ++s) second.push_back(data.pair_of(s));
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 20U);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 20U);
}

TEST_F(PreferencesTest, LongPairsAreRejectedSkippedOrTruncated) {
  const std::string lines =
      "{\"prompt\":\"p\",\"chosen\":\"short\",\"rejected\":\"0123456789\"}\n"
      "{\"prompt\":\"p\",\"chosen\":\"ab\",\"rejected\":\"cd\"}\n";
  InstructionSpec s = spec(lines, 14);
  EXPECT_NE(message(s).find("p.jsonl:1: 6 and 11 tokens of both texts do not fit "
                            "data.sequence_length = 14"),
            std::string::npos)
      << message(s);
  s.long_examples = LongExamples::kSkip;
  const PreferenceData skipped(s, PreferenceUse::kPairs, tokenizer_);
  EXPECT_EQ(skipped.pairs(), 1);
  EXPECT_EQ(skipped.counts().skipped_long, 1);
  s.long_examples = LongExamples::kTruncate;
  const PreferenceData cut(s, PreferenceUse::kPairs, tokenizer_);
  EXPECT_EQ(cut.pairs(), 2);
  EXPECT_EQ(cut.counts().truncated, 1);
  EXPECT_EQ(shown(cut, 0, 0), "p[short|");  // the shorter text is whole
  EXPECT_EQ(shown(cut, 0, 1), "p[01234567");
}

TEST_F(PreferencesTest, ErrorsNameTheLineAndTheKey) {
  EXPECT_NE(message(spec("{\"prompt\":\"p\",\"chosen\":\"c\"}\n"))
                .find("p.jsonl:1: the object has 'prompt', 'chosen', expected 'chosen' and "
                      "'rejected'"),
            std::string::npos);
  EXPECT_NE(message(spec("{\"prompt\":\"p\",\"completion\":\"c\",\"label\":\"good\"}\n"),
                    PreferenceUse::kExamples)
                .find("'label' is \"good\", expected true"),
            std::string::npos);
  EXPECT_NE(message(spec("{\"prompt\":\"p\",\"completion\":\"c\",\"label\":true}\n"),
                    PreferenceUse::kExamples)
                .find("expected two or more"),
            std::string::npos);
  EXPECT_NE(
      message(spec("{\"chosen\":\"c\",\"rejected\":\"d\",\"prompt\":\"p\",\"margin\":\"x\"}\n"))
          .find("'margin' is \"x\", expected a number"),
      std::string::npos);
}

TEST_F(PreferencesTest, FormsThatContradictThemselvesAreErrors) {
  for (const auto& [line, expected] :
       {std::pair{R"({"prompt":"p","chosen":"c","rejected":[]})",
                  "p.jsonl:1: one of 'chosen' and 'rejected' is a text, expected two texts"},
        {R"({"messages":[],"chosen":"c","rejected":"d"})",
         "p.jsonl:1: the object has 'messages' next to"},
        {R"({"chosen":{"role":"assistant","content":"A"},"rejected":{"role":"assistant",)"
         R"("content":"B"}})",
         "p.jsonl:1: 'chosen' is one message, expected 'prompt'"}}) {
    const std::string found = message(spec(std::string(line) + "\n"));
    EXPECT_NE(found.find(expected), std::string::npos) << line << "\n" << found;
  }
}

// As in ultrafeedback_binarized: a text as the prompt, and conversations that begin with it.
TEST_F(PreferencesTest, APromptThatTheAnswersRepeatIsReadOnce) {
  const auto said = [](const char* role, const char* text) {
    return fmt::format(R"({{"role":"{}","content":"{}"}})", role, text);
  };
  const std::string user = said("user", "U"), a = said("assistant", "A"),
                    b = said("assistant", "B");
  const auto read = [&](const std::string& line) {
    InstructionSpec s = spec(line);
    ChatSettings settings;
    settings.text =
        "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %} {% endfor %}";
    s.chat.form = std::make_shared<const ChatTemplate>(std::move(settings), tokenizer_);
    return PreferenceData(s, PreferenceUse::kPairs, tokenizer_);
  };
  const PreferenceData repeats =
      read(fmt::format(R"({{"prompt":"U","chosen":[{0},{1}],"rejected":[{0},{2}]}})"
                       "\n",
                       user, a, b));
  const PreferenceData apart = read(fmt::format(R"({{"prompt":[{}],"chosen":[{}],"rejected":[{}]}})"
                                                "\n",
                                                user, a, b));
  for (int64_t answer = 0; answer < 2; ++answer)
    EXPECT_EQ(shown(repeats, 0, answer), shown(apart, 0, answer));
}

// As in orca_dpo_pairs, and axolotl's chatml.intel: texts, which the chat template surrounds.
TEST_F(PreferencesTest, AQuestionAndASystemMessageAreThePrompt) {
  InstructionSpec s = spec(R"({"system":"S","question":"Q","chosen":"Qa","rejected":"Qb","id":1})"
                           "\n"
                           R"({"system":"","question":"Q","chosen":"c","rejected":"d","id":2})"
                           "\n");
  ChatSettings settings;
  settings.text =
      "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %} {% endfor %}";
  s.chat.form = std::make_shared<const ChatTemplate>(std::move(settings), tokenizer_);
  const PreferenceData data(s, PreferenceUse::kPairs, tokenizer_);
  EXPECT_EQ(shown(data, 0, 0), "system: S user: Q assistant: [Qa] ");
  EXPECT_EQ(shown(data, 0, 1), "system: S user: Q assistant: [Qb] ");
  EXPECT_EQ(shown(data, 1, 0), "user: Q assistant: [c] ");
  EXPECT_EQ(data.counts().unread, std::vector<std::string>{"id"});
  s.chat.form = nullptr;
  EXPECT_NE(message(s).find("p.jsonl:1: a conversation needs a chat template"), std::string::npos);
}

TEST_F(PreferencesTest, APromptUnderAnotherKeyIsNotDropped) {
  for (const char* name : {"input", "query", "context"}) {
    const std::string line = fmt::format(R"({{"{}":"p","chosen":"pc","rejected":"pd"}})", name);
    EXPECT_NE(message(spec(line + "\n"))
                  .find(fmt::format("p.jsonl:1: the object has '{0}' next to 'chosen' and "
                                    "'rejected', but no 'prompt'. If it is the prompt, set "
                                    "data.keys: {{prompt: {0}}}",
                                    name)),
              std::string::npos)
        << message(spec(line + "\n"));
  }
  EXPECT_NE(message(spec("{\"system\":\"s\",\"chosen\":\"c\",\"rejected\":\"d\"}\n"))
                .find("p.jsonl:1: the object has 'system' next to 'chosen' and 'rejected', but no "
                      "'prompt'. Add it"),
            std::string::npos);
  // The prompt is named before the system message that belongs to it.
  EXPECT_NE(
      message(spec("{\"system\":\"s\",\"query\":\"q\",\"chosen\":\"c\",\"rejected\":\"d\"}\n"))
          .find("p.jsonl:1: the object has 'query' next to"),
      std::string::npos);
  InstructionSpec named = spec("{\"input\":\"p\",\"chosen\":\"c\",\"rejected\":\"d\"}\n");
  named.chat.names.keys = {{"prompt", "input"}};
  EXPECT_EQ(shown(PreferenceData(named, PreferenceUse::kPairs, tokenizer_), 0, 0), "p[c|");
}

TEST_F(PreferencesTest, OtherKeysCanBeNamed) {
  InstructionSpec s = spec("{\"question\":\"q\",\"good\":\"1\",\"bad\":\"2\"}\n");
  s.chat.names.keys = {{"prompt", "question"}, {"chosen", "good"}, {"rejected", "bad"}};
  const PreferenceData data(s, PreferenceUse::kPairs, tokenizer_);
  EXPECT_EQ(shown(data, 0, 0), "q[1|");
  EXPECT_EQ(shown(data, 0, 1), "q[2|");
}

TEST_F(PreferencesTest, TheFingerprintIsThatOfTheTokens) {
  const std::string one = "{\"prompt\":\"p\",\"chosen\":\"a\",\"rejected\":\"b\"}\n";
  const std::string other = "{\"prompt\":\"p\",\"chosen\":\"b\",\"rejected\":\"a\"}\n";
  EXPECT_EQ(pairs(one).fingerprint(), pairs(one).fingerprint());
  EXPECT_NE(pairs(one).fingerprint(), pairs(other).fingerprint());
}

}  // namespace
}  // namespace tessera::data
