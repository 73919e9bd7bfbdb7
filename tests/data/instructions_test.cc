#include "data/instructions.h"

#include <algorithm>
#include <set>

#include "data/samples.h"
#include "data/training_data.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

class InstructionsTest : public DatasetFixture {
 protected:
  InstructionSpec spec(const std::string& lines, int64_t length = 64) const {
    InstructionSpec s;
    s.files = {put("i.jsonl", lines)};
    s.form = "Q:{prompt} A:{response}.";
    s.sequence_length = length;
    s.seed = 5;
    return s;
  }
  std::string message(const InstructionSpec& s) const {
    return error_of([&] { InstructionData(s, tokenizer_); });
  }
  // What of an example is read, with [ ] around what is learned and | for end-of-text.
  std::string shown(const InstructionData& data, int64_t example) const {
    std::string out;
    char before = 0;
    const auto flags = data.learned(example);
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] != before) out += flags[i] != 0 ? '[' : ']';
      before = flags[i];
      const int32_t id = data.ids(example)[i];
      out += id == 256 ? '|' : static_cast<char>(id);
    }
    return out;
  }
  void rows_hold_whole_examples(InstructionSpec s, bool apart) const;
  ByteTokenizer tokenizer_;
};

struct Row {
  std::vector<int32_t> tokens, labels, positions, documents, source;
  explicit Row(int64_t t)
      : tokens(static_cast<size_t>(t)), labels(tokens), positions(tokens), documents(tokens) {}
  SampleRow view() { return {tokens, labels, positions, documents, source}; }
};

TEST_F(InstructionsTest, LearnsResponsesOnly) {
  const InstructionData data(
      spec("{\"prompt\":\"two?\",\"response\":\"2\"}\n"
           "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
           "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
           "{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]}\n"),
      tokenizer_);
  ASSERT_EQ(data.examples(), 2);
  EXPECT_EQ(shown(data, 0), "Q:two? A:[2.|");
  EXPECT_EQ(shown(data, 1), "Q:Be brief.\n\na A:[b.|]Q:c A:[d.|");
  EXPECT_EQ(data.response_tokens(), 9);
  EXPECT_EQ(data.stops(), std::vector<int32_t>{256});
}

TEST_F(InstructionsTest, ASystemMessageMayBeNextToTheMessages) {
  const auto line = [](const char* system, const char* first) {
    return fmt::format(
        R"({{"messages":[{}{{"role":"user","content":"a"}},{{"role":"assistant","content":"b"}}],)"
        R"("system":"{}","id":1}})"
        "\n",
        first, system);
  };
  const char* own = R"({"role":"system","content":"S"},)";
  const InstructionData data(spec(line("S", "") + line("S", own) + line("", own) +
                                  "{\"prompt\":\"two?\",\"response\":\"2\",\"system\":\"S\"}\n"),
                             tokenizer_);
  for (const int64_t example : {0, 1, 2}) EXPECT_EQ(shown(data, example), "Q:S\n\na A:[b.|");
  EXPECT_EQ(shown(data, 3), "Q:two? A:[2.|");
  EXPECT_EQ(data.counts().unread, (std::vector<std::string>{"id", "system"}));
  EXPECT_NE(error_of([&] {
              InstructionData(spec(line("T", own)), tokenizer_);
            }).find("'system' and the first message are two system messages"),
            std::string::npos);
}

TEST_F(InstructionsTest, RowsHoldWholeExamples) {
  InstructionSpec s = spec(
      "{\"prompt\":\"two?\",\"response\":\"2\"}\n"
      "{\"prompt\":\"x\",\"response\":\"yz\"}\n",
      32);
  EXPECT_TRUE(s.intra_document_masking);  // unless they are to see each other (B8)
  for (const bool apart : {true, false}) rows_hold_whole_examples(s, apart);
}

void InstructionsTest::rows_hold_whole_examples(InstructionSpec s, bool apart) const {
  s.intra_document_masking = apart;
  const InstructionData data(s, tokenizer_);
  ASSERT_EQ(data.rows(), 1);
  Row row(32);
  data.read_row(0, row.view());
  size_t at = 0;
  int32_t document = 0;
  for (const int32_t example : data.row_examples(0)) {
    const auto ids = data.ids(example);
    const auto learned = data.learned(example);
    for (size_t t = 0; t + 1 < ids.size(); ++t, ++at) {
      EXPECT_EQ(row.tokens[at], ids[t]);
      EXPECT_EQ(row.labels[at], learned[t + 1] != 0 ? ids[t + 1] : kIgnoredLabel);
      EXPECT_EQ(row.documents[at], document);
      EXPECT_EQ(row.positions[at], static_cast<int32_t>(apart ? t : at));
    }
    ++document;
  }
  for (; at < 32; ++at) {
    EXPECT_EQ(row.labels[at], kIgnoredLabel);
    EXPECT_EQ(row.documents[at], kNoDocument);
  }
}

// Over an epoch each example is read once, whole; positions begin anew in each.
TEST_F(InstructionsTest, PackingLosesAndRepeatsNothing) {
  std::string lines;
  for (int i = 0; i < 300; ++i) {
    lines += fmt::format("{{\"prompt\":\"{}\",\"response\":\"{}\"}}\n", i,
                         std::string(static_cast<size_t>(i * 37 % 50), 'r'));
  }
  const InstructionSpec s = spec(lines);
  const InstructionData data(s, tokenizer_);
  EXPECT_EQ(data.examples(), 300);
  EXPECT_LT(static_cast<double>(data.rows() * 64), 1.1 * static_cast<double>(data.tokens() - 300));
  std::vector<std::vector<int64_t>> orders;
  for (const int64_t epoch : {0, 1}) {
    std::multiset<std::string> texts;
    int64_t learned = 0;
    std::vector<int64_t> order;
    for (int64_t r = 0; r < data.rows(); ++r) {
      Row row(64);
      data.read_row(epoch * data.rows() + r, row.view());
      order.push_back(data.row_examples(epoch * data.rows() + r)[0]);
      std::string text;
      for (size_t t = 0; t < 64; ++t) {
        learned += row.labels[t] != kIgnoredLabel;
        if (row.documents[t] == kNoDocument) break;
        if (row.positions[t] == 0 && t > 0) texts.insert(std::exchange(text, {}));
        EXPECT_EQ(row.positions[t] == 0, t == 0 || row.documents[t] != row.documents[t - 1]);
        text += row.tokens[t] == 256 ? '|' : static_cast<char>(row.tokens[t]);
      }
      texts.insert(text);
    }
    std::multiset<std::string> wanted;
    for (int64_t e = 0; e < 300; ++e) {
      std::string text;
      for (const int32_t id : data.ids(e)) text += id == 256 ? '|' : static_cast<char>(id);
      text.pop_back();  // the last is only a label
      wanted.insert(text);
    }
    EXPECT_EQ(texts, wanted);
    EXPECT_EQ(learned, data.response_tokens());
    orders.push_back(order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_TRUE(std::is_permutation(orders[0].begin(), orders[0].end(), orders[1].begin()));
}

TEST_F(InstructionsTest, NamesTheLineOfWhatIsMissing) {
  const std::string good = "{\"prompt\":\"a\",\"response\":\"b\"}\n\n";
  const auto says = [&](const std::string& line, const std::string& part) {
    const std::string found = message(spec(good + line + "\n"));
    EXPECT_TRUE(contains(found, "i.jsonl:3") && contains(found, part)) << found;
  };
  says("{\"prompt\":\"a\"}", "there is no 'response'; the object has 'prompt'");
  says("{\"prompt\": oh}", "i.jsonl:3:12: this is not JSON");
  says("{\"response\":\"a\",\"x\":1}", "there is no 'prompt'; the object has 'response', 'x'");
  says("{\"prompt\":1,\"response\":\"a\"}", "'prompt' is an integer, expected a text");
  says("{\"prompt\":\"a\",\"response\":null}", "'response' is null, expected a text");
  says("{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}",
       "messages[0]: 'content' is a list, expected a text");
  says("[1]", "expected one JSON object per line");
  says("{\"prompt\":", "");
  says("{\"messages\":3}", "'messages' is an integer, expected a list");
  says("{\"messages\":[]}", "'messages' is empty, expected turns of user and assistant");
  says("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
       "the last message is not from the assistant");
  says("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]}",
       "messages[0]: the role is 'assistant', expected 'user'");
  says("{\"messages\":[{\"role\":\"user\"}]}", "messages[0]: there is no 'content'");
  says("{\"prompt\":\"" + std::string(80, 'p') + "\",\"response\":\"b\"}",
       "88 tokens do not fit data.sequence_length = 64");
  says(R"({"messages":[{"role":"user","content":null}]})", "'content' is null, expected a text");
  EXPECT_TRUE(contains(message(spec("\n")), "there is no example"));
}

TEST_F(InstructionsTest, LongExamplesAreSkippedOrCutIfWanted) {
  InstructionSpec s =
      spec("{\"prompt\":\"a\",\"response\":\"b\"}\n{\"prompt\":\"a\",\"response\":\"" +
           std::string(80, 'r') + "\"}\n");
  s.long_examples = LongExamples::kSkip;
  EXPECT_EQ(InstructionData(s, tokenizer_).examples(), 1);
  EXPECT_EQ(InstructionData(s, tokenizer_).counts().skipped_long, 1);
  s.long_examples = LongExamples::kTruncate;
  const InstructionData cut(s, tokenizer_);
  ASSERT_EQ(cut.examples(), 2);
  EXPECT_EQ(cut.ids(1).size(), 65u);
  EXPECT_EQ(cut.counts().truncated, 1);
}

// A validation set of them has every row once, in one order, and counts what it asks.
TEST_F(InstructionsTest, ValidationReadsEachRowOnce) {
  std::string lines;
  for (size_t i = 0; i < 9; ++i)
    lines +=
        fmt::format("{{\"prompt\":\"p{}\",\"response\":\"{}\"}}\n", i, std::string(1 + i, 'r'));
  for (const int64_t target : {0, 12}) {
    InstructionSpec s = spec(lines, 24);
    s.target_length = target;
    const ValidationData data(s, tokenizer_);
    const InstructionData plain(s, tokenizer_);
    ASSERT_EQ(data.samples(), plain.rows());
    EXPECT_EQ(data.row_tokens(), target > 0 ? 12 : 24);
    EXPECT_EQ(data.row_source(), target > 0 ? 24 : 0);
    EXPECT_EQ(data.predicted_tokens(), 45 + 2 * 9);  // and their points and ends
    EXPECT_EQ(data.text_bytes(tokenizer_), 45 + 9);
    Row row(data.row_tokens());
    row.source.resize(static_cast<size_t>(data.row_source()));
    int64_t asked = 0;
    for (int64_t i = 0; i <= data.samples(); ++i) {  // one beyond the end
      data.read_row(i, row.view());
      const auto count = std::count_if(row.labels.begin(), row.labels.end(),
                                       [](int32_t label) { return label != kIgnoredLabel; });
      EXPECT_EQ(count > 0, i < data.samples());
      asked += count;
    }
    EXPECT_EQ(asked, data.predicted_tokens());
  }
}

TEST_F(InstructionsTest, ExamplesBeginAsTheTokenizerSays) {
  struct Begins : ByteTokenizer {
    std::optional<int32_t> text_begin() const override { return '^'; }
  };
  InstructionSpec s = spec("{\"prompt\":\"two?\",\"response\":\"2\"}\n");
  EXPECT_EQ(shown(InstructionData(s, Begins()), 0), "^Q:two? A:[2.|");
  s.target_length = 8;
  EXPECT_EQ(shown(InstructionData(s, Begins()), 0), "^Q:two? A:|[2.|");
  s.target_length = 0;
  s.form = "^{prompt}{response}";  // a template that begins the text itself
  EXPECT_EQ(shown(InstructionData(s, Begins()), 0), "^two?[2|");
}

// The template's own text after the response is learned, too; a special token in it ends a turn.
TEST_F(InstructionsTest, A4_TheEndOfATurnIsLearned) {
  struct Chat : ByteTokenizer {
    bool is_special(int32_t id) const override { return id == '$' || id == 256; }
  };
  const char* two =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
      "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"},"
      "{\"role\":\"assistant\",\"content\":\"d\"}]}\n";
  InstructionSpec s = spec(two);
  s.form = "u{prompt}$a{response}$\n";
  const InstructionData chat(s, Chat());
  EXPECT_EQ(shown(chat, 0), "ua$a[b$\n]uc$a[d$\n|");
  EXPECT_EQ(chat.stops(), (std::vector<int32_t>{'$', 256}));
  EXPECT_EQ(chat.response_bytes(Chat()), 4);  // b, d and the ends of lines
  EXPECT_EQ(chat.place(0), path("i.jsonl") + ":1");
  // Without a special token the end of text ends every turn.
  EXPECT_EQ(shown(InstructionData(s, tokenizer_), 0), "ua$a[b$\n|]uc$a[d$\n|");
  // Only the text up to the next name is learned.
  s = spec("{\"p\":\"a\",\"response\":\"b\",\"source\":\"s\"}\n");
  s.form = "{p}:{response}. From {source}!";
  EXPECT_EQ(shown(InstructionData(s, tokenizer_), 0), "a:[b. From ]s![|");
  // An ending that is the end of text itself is not written twice.
  struct Named : ByteTokenizer {
    std::string_view token_bytes(int32_t id) const override {
      return id == 256 ? "</s>" : ByteTokenizer::token_bytes(id);
    }
  };
  s = spec(two);
  s.form = "{prompt}:{response}</s>";
  EXPECT_EQ(shown(InstructionData(s, Named()), 0), "a:[b|]c:[d|");
}

TEST_F(InstructionsTest, SourcesEndAsTheTokenizerSays) {
  struct Plain : ByteTokenizer {
    std::optional<int32_t> source_end() const override { return std::nullopt; }
  };
  InstructionSpec s = spec("{\"prompt\":\"two?\",\"response\":\"2\"}\n");
  s.target_length = 8;
  EXPECT_EQ(shown(InstructionData(s, tokenizer_), 0), "Q:two? A:|[2.|");
  EXPECT_EQ(shown(InstructionData(s, Plain()), 0), "Q:two? A:[2.|");
  s.form = "{response}";
  EXPECT_TRUE(
      contains(error_of([&] { InstructionData(s, Plain()); }), "i.jsonl:1: the prompt is empty"));
}

TEST_F(InstructionsTest, TemplatesAreChecked) {
  const auto says = [&](const std::string& form, const std::string& part) {
    const std::string found = error_of([&] { InstructionTemplate t(form); });
    EXPECT_TRUE(contains(found, part)) << found;
  };
  says("Q: {prompt}", "there is no {response}, so nothing would be learned");
  says("{response}{response}", "duplicate {response}");
  says("{prompt {response}", "character 1: the brace is not closed");
  says("{response", "the brace is not closed");
  says("} {response}", "a closing brace without an opening one");
  says("{}{response}", "no name in the braces");
  const InstructionTemplate t("{{{a}}}: {b}{a}{response}!{c}");
  EXPECT_EQ(t.names(), (std::vector<std::string>{"a", "b", "c"}));
  const auto upper = [](const std::string& name) { return name + name; };
  EXPECT_EQ(t.before(upper), "{aa}: bbaa");
  EXPECT_EQ(t.ending(), "!");
  EXPECT_EQ(t.after(upper), "cc");
  EXPECT_EQ(InstructionTemplate("{a}{response}").ending(), "");
}

TEST(RowPacking, PutsEachThingIntoOneRow) {
  for (const uint64_t key : {1U, 2U, 3U}) {
    std::vector<int32_t> lengths;
    for (int32_t i = 0; i < 500; ++i) lengths.push_back(1 + i * 31 % 100);
    const RowPacking packing(lengths, 100, key);
    std::set<int32_t> seen;
    for (int64_t r = 0; r < packing.rows(); ++r) {
      int64_t filled = 0;
      for (const int32_t thing : packing.row(r)) {
        filled += lengths[static_cast<size_t>(thing)];
        EXPECT_TRUE(seen.insert(thing).second);
      }
      EXPECT_GT(filled, 0);
      EXPECT_LE(filled, 100);
    }
    EXPECT_EQ(seen.size(), 500u);
    EXPECT_LE(packing.rows(), 280);  // 252.5 rows' worth
  }
}

}  // namespace
}  // namespace tessera::data
