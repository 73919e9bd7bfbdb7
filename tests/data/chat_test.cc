#include <gtest/gtest.h>

#include <array>

#include "data/chat_encoder.h"
#include "data/chat_settings.h"
#include "data/instructions.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

// Bytes, and these names as tokens from 257 on.
class NamedTokens : public ByteTokenizer {
 public:
  using Tokenizer::encode;
  static constexpr std::array<std::string_view, 6> kNames{"<|im_start|>", "<|im_end|>", "<s>",
                                                          "<|end|>",      "<|call|>",   "<A>"};
  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
              EncodeReport* report) const override {
    while (!text.empty()) {
      int32_t id = 0;
      for (size_t i = 0; i < kNames.size(); ++i)
        if (text.starts_with(kNames[i])) id = 257 + static_cast<int32_t>(i);
      if (id == 0) {
        ByteTokenizer::encode(text.substr(0, 1), ids, cache, report);
        text.remove_prefix(1);
      } else {
        ids.push_back(id);
        text.remove_prefix(kNames[id - 257].size());
      }
    }
  }
  std::string_view token_bytes(int32_t id) const override {
    if (id == 256) return "<eos>";
    return id > 256 ? kNames[id - 257] : ByteTokenizer::token_bytes(id);
  }
  int32_t vocabulary_size() const override { return 257 + static_cast<int32_t>(kNames.size()); }
  bool is_special(int32_t id) const override { return id > 255; }
};

constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class ChatTest : public DatasetFixture {
 protected:
  ChatTemplate form(const std::string& text) const {
    ChatSettings s;
    s.text = text;
    s.source = "t.jinja";
    s.ends = known_turn_ends(tokenizer_);
    return {std::move(s), tokenizer_};
  }
  Conversation chat(const std::string& line, ChatNames names = {}) const {
    const Tree tree = parse_json(line, "line");
    const ConversationReader reader(std::move(names));
    return reader.read(tree, reader.form_of(tree, "f:1"), "f:1").chat;
  }
  // The text with brackets around what is learned.
  std::string shown(const std::string& text, const std::string& line,
                    Learned learned = Learned::kAnswers) const {
    const ChatText t = form(text).apply(chat(line), learned);
    std::string out = t.text;
    for (auto span = t.learned.rbegin(); span != t.learned.rend(); ++span)
      out.insert(span->second, "]").insert(span->first, "[");
    return out;
  }
  NamedTokens tokenizer_;
};

constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
        {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]})";

TEST_F(ChatTest, TheTokenThatTheTemplateWritesEndsAnAnswer) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(known_turn_ends(tokenizer_), (Names{"<eos>", "<|im_end|>", "<|end|>", "<|call|>"}));
  EXPECT_EQ(answer_ends(form(kChatMl)), Names{"<|im_end|>"});
  EXPECT_EQ(
      answer_ends(form("{% for m in messages %}{{ m.role }} {{ m.content }}{% if loop.last %}<eos>"
                       "{% else %}<|end|>{% endif %}{% endfor %}")),
      Names{"<eos>"});
  // None is written, or the conversation is rejected.
  EXPECT_EQ(answer_ends(form("{{ messages[0].content }}")), known_turn_ends(tokenizer_));
  EXPECT_EQ(answer_ends(form("{{ raise_exception('x') }}")), known_turn_ends(tokenizer_));
}

TEST_F(ChatTest, AnswersAreLearnedUpToTheEndOfTheirTurn) {
  EXPECT_EQ(shown(kChatMl, kTwoTurns),
            "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n[A<|im_end|>]\n"
            "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n[B<|im_end|>]\n");
  EXPECT_EQ(shown(kChatMl, kTwoTurns, Learned::kLastAnswer),
            "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
            "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n[B<|im_end|>]\n");
}

TEST_F(ChatTest, AMessageMayBeLeftOut) {
  for (const char* flag : {R"("train": false)", R"("training": false)", R"("weight": 0)"}) {
    const std::string line = fmt::format(
        R"({{"messages": [{{"role": "assistant", "content": "A", {}}},
            {{"role": "assistant", "content": "B"}}]}})",
        flag);
    EXPECT_EQ(shown(kChatMl, line),
              "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>assistant\n[B<|im_end|>]\n");
    EXPECT_EQ(shown("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}"
                    "{% endfor %}",
                    line),
              "A[B]");
  }
}

// The texts of earlier messages depend on later ones: thoughts are removed, as Qwen 3 does; the
// prompt for an answer has a tag that the answers have not, as DeepSeek's; the last turn ends in
// another token, as gpt-oss's.
TEST_F(ChatTest, TemplatesThatAreNotStable) {
  const std::string thoughts =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last and m.role == 'assistant' "
      "%}<think></think>{% endif %}{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_EQ(shown(thoughts, kTwoTurns),
            "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n[A<|im_end|>]\n"
            "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"
            "[<think></think>B<|im_end|>]\n");
  const std::string tag =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}<A>{{ m.content }}"
      "<eos>{% endif %}{% endfor %}{% if add_generation_prompt %}<A><think>\n{% endif %}";
  EXPECT_EQ(shown(tag, kTwoTurns), "U<A>[A<eos>]V<A>[B<eos>]");
  const std::string channels =
      "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}<|end|>{% else %}"
      "<A>final:{{ m.content }}{{ '<|call|>' if loop.last else '<|end|>' }}{% endif %}"
      "{% endfor %}{% if add_generation_prompt %}<A>{% endif %}";
  EXPECT_EQ(shown(channels, kTwoTurns),
            "U:U<|end|><A>[final:A<|end|>]U:V<|end|><A>[final:B<|call|>]");
  // The system prompt is in the last question, as Mistral's templates have it.
  const std::string system_last =
      "{% for m in messages %}{% if m.role == 'user' %}[INST]{% if loop.index0 >= messages|length "
      "- "
      "2 %}S {% endif %}{{ m.content }}[/INST]{% else %}{{ m.content }}<eos>{% endif %}{% endfor "
      "%}";
  EXPECT_EQ(form(system_last).apply(chat(kTwoTurns), Learned::kAnswers).text,
            "[INST]U[/INST]A<eos>[INST]S V[/INST]B<eos>");
  EXPECT_EQ(shown(system_last, kTwoTurns), "[INST]U[/INST][A<eos>][INST]S V[/INST][B<eos>]");
}

// Such a template reads messages[0], so it cannot write what precedes the first message.
constexpr const char* kReadsTheFirst =
    "{% if messages[0].role == 'system' %}S {{ messages[0].content }}{% else %}S default{% endif %}"
    "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ CONTENT }}"
    "<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST_F(ChatTest, AConversationMayBeginWithAnAnswer) {
  std::string plain = kReadsTheFirst, trimmed = plain;
  plain.replace(plain.find("CONTENT"), 7, "m.content");
  trimmed.replace(trimmed.find("CONTENT"), 7, "m.content | trim");
  const std::string line =
      R"({"messages": [{"role": "assistant", "content": " Hi"}, {"role": "user", "content": "U"},
          {"role": "assistant", "content": "A"}]})";
  EXPECT_EQ(shown(plain, line),
            "S default<|im_start|>assistant\n[ Hi<|im_end|>]\n<|im_start|>user\nU<|im_end|>\n"
            "<|im_start|>assistant\n[A<|im_end|>]\n");
  EXPECT_EQ(shown(trimmed, line),
            "S default<|im_start|>assistant\n[Hi<|im_end|>]\n<|im_start|>user\nU<|im_end|>\n"
            "<|im_start|>assistant\n[A<|im_end|>]\n");
  // With a template that writes nothing of the first message, there is nothing to learn from it.
  EXPECT_THROW(shown("{{ messages[0].role }}{{ messages[1].content }}", line), Error);
}

TEST_F(ChatTest, WhatCannotBeDecidedIsRejected) {
  const auto says = [&](const std::string& text) {
    return error_of([&] { form(text).apply(chat(kTwoTurns), Learned::kAnswers); });
  };
  EXPECT_EQ(says("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"),
            "t.jinja: cannot decide where the answer messages[1] ends in the text of the template. "
            "Use a version of the template with {% generation %} blocks around the answers");
  EXPECT_TRUE(contains(says("{{ messages | length }}{% for m in messages %}{{ m.content | length }}"
                            "<|im_end|>{% endfor %}"),
                       "begins"));
  EXPECT_TRUE(contains(says("{{ raise_exception('no') }}"), "rejects the conversation: no"));
}

TEST_F(ChatTest, Forms) {
  const std::string expected = to_json(chat(kTwoTurns).messages);
  for (const char* line :
       {R"({"conversations": [{"from": "human", "value": "U"}, {"from": "gpt", "value": "A"},
            {"from": "human", "value": "V"}, {"from": "gpt", "value": "B"}]})",
        R"({"history": [["U", "A"]], "instruction": "V", "input": "", "output": "B"})",
        R"({"prompt": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
            {"role": "user", "content": "V"}], "completion": [{"role": "assistant", "content": "B"}]})",
        R"({"chosen": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
            {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}],
            "rejected": [{"role": "user", "content": "U"}]})",
        R"({"history": [["U", "A"]], "instruction": "V", "chosen": "B", "rejected": "C"})"})
    EXPECT_EQ(to_json(chat(line).messages), expected) << line;
  ChatNames names;
  names.keys = {{"messages", "dialogue"}, {"role", "speaker"}, {"content", "text"}};
  names.roles = {{"bot", "assistant"}, {"client", "user"}};
  EXPECT_EQ(to_json(chat(R"({"dialogue": [{"speaker": "client", "text": "U"},
      {"speaker": "bot", "text": "A"}, {"speaker": "client", "text": "V"},
      {"speaker": "bot", "text": "B"}]})",
                         names)
                        .messages),
            expected);
  EXPECT_EQ(
      to_json(chat(R"({"system": "S", "instruction": "I", "input": "x", "output": "O"})").messages),
      R"([{"role":"system","content":"S"},{"role":"user","content":"I\nx"},)"
      R"({"role":"assistant","content":"O"}])");
}

TEST_F(ChatTest, ToolsAndParts) {
  const Conversation c = chat(
      R"({"tools": "[{\"name\": \"f\"}]", "conversations": [{"from": "human", "value": "U"},
          {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
          {"from": "observation", "value": "7"}, {"from": "gpt", "value": "A"}]})");
  EXPECT_EQ(to_json(c.tools), R"([{"name":"f"}])");
  EXPECT_EQ(to_json(c.messages.as_list()->at(1)),
            R"({"role":"assistant","content":"","tool_calls":[{"type":"function","function":)"
            R"({"name":"f","arguments":{"a":1}}}]})");
  EXPECT_EQ(to_json(c.messages.as_list()->at(2)), R"({"role":"tool","content":"7"})");
  EXPECT_EQ(to_json(chat(R"({"messages": [{"role": "assistant", "content": null, "tool_calls":
      [{"function": {"name": "f", "arguments": "{\"a\": [1]}"}}]},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})")
                        .messages),
            R"([{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
            R"("arguments":{"a":[1]}}}]},{"role":"user","content":"ab"}])");
}

TEST_F(ChatTest, ErrorsOfLinesNamePlaceAndKey) {
  const auto says = [&](const std::string& line) { return error_of([&] { chat(line); }); };
  EXPECT_TRUE(
      contains(says(R"({"question": "x"})"), "f:1: the object has 'question', which is not"));
  EXPECT_TRUE(contains(says(R"({"messages": [{"role": "bot", "content": "x"}]})"),
                       "f:1: messages[0]: the role 'bot' is unknown. Name it in data.roles"));
  EXPECT_TRUE(contains(says(R"({"messages": [{"role": "user"}]})"), "there is no 'content'"));
  EXPECT_TRUE(contains(says(R"({"messages": []})"), "the conversation is empty"));
  EXPECT_TRUE(contains(says(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
                       "\"image\""));
  EXPECT_TRUE(contains(says(R"({"messages": 3})"), "'messages' is an integer, expected a list"));
}

TEST_F(ChatTest, RowsOfChatData) {
  InstructionSpec s;
  s.files = {put("c.jsonl",
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"U\"}, "
                 "{\"role\": \"assistant\", \"content\": \"A\"}]}\n\n"
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"V\"}]}\n"),
             put("l.json",
                 "[\n{\"prompt\": \"P\",\n \"completion\": \"C\"},\n\n"
                 "{\"prompt\": \"Q\", \"completion\": \"D\"}]\n"),
             put("t.jsonl", "{\"text\": \"T\"}\n")};
  s.sequence_length = 64;
  s.chat.form = std::make_shared<const ChatTemplate>(form(kChatMl));
  const InstructionData data(s, tokenizer_);
  ASSERT_EQ(data.examples(), 4);
  EXPECT_EQ(data.stops(), (std::vector<int32_t>{258, 256}));
  EXPECT_EQ(data.counts().skipped_empty, 1);
  EXPECT_EQ(data.counts().forms, "messages, prompt_completion, text");
  EXPECT_TRUE(data.place(1).ends_with("l.json:2")) << data.place(1);
  EXPECT_TRUE(data.place(2).ends_with("l.json:5")) << data.place(2);
  const auto flags = [&](int64_t e) {
    std::string text;
    for (const char f : data.learned(e)) text += f != 0 ? '1' : '0';
    return text;
  };
  // <|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n, then A<|im_end|>, then \n.
  EXPECT_EQ(flags(0), std::string(9 + 11, '0') + "11" + "0");
  EXPECT_EQ(flags(1), "011");
  EXPECT_EQ(flags(3), "11");
  EXPECT_EQ(data.ids(1)[2], 256);
}

TEST_F(ChatTest, AFileHasOneForm) {
  InstructionSpec s;
  s.files = {put("c.jsonl", "{\"prompt\": \"P\", \"completion\": \"C\"}\n{\"text\": \"T\"}\n")};
  s.sequence_length = 64;
  EXPECT_TRUE(contains(error_of([&] { InstructionData(s, tokenizer_); }),
                       "c.jsonl:2: this example is of the form text, but line 1 of the file is "
                       "prompt_completion. Divide the file"));
  s.files = {put("m.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"U\"}]}\n")};
  EXPECT_TRUE(contains(error_of([&] { InstructionData(s, tokenizer_); }),
                       "m.jsonl:1: a conversation needs a chat template"));
}

}  // namespace
}  // namespace tessera::data
