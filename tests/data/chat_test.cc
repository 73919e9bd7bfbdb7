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
            "t.jinja: the template writes no token after the answer messages[1] that ends a turn, "
            "expected one of <eos>, <|im_end|>, <|end|>, <|call|>. A model that is trained on it "
            "would not stop: end the answers of the template with {{ eos_token }}");
  // A token of other tokenizers, which this one has as bytes.
  EXPECT_EQ(says("{% for m in messages %}{{ m.content }}<|eot_id|>{% endfor %}"),
            "t.jinja: the template ends the answer messages[1] with <|eot_id|>, which is 10 tokens "
            "of this tokenizer, expected one special token. Use a tokenizer that has <|eot_id|>, "
            "or end the answers of the template with {{ eos_token }}");
  // The text changes with the marks, so nothing is known about the end.
  EXPECT_EQ(says("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<|im_end|>"
                 "{% elif m.content | length == 1 %}{{ m.content }}<|im_end|>{% endif %}"
                 "{% endfor %}{% if messages | length == 2 %}x{% endif %}"),
            "t.jinja: cannot decide where the answer messages[1] ends in the text of the template. "
            "Use a version of the template with {% generation %} blocks around the answers");
  EXPECT_TRUE(contains(says("{{ messages | length }}{% for m in messages %}{{ m.content | length }}"
                            "<|im_end|>{% endfor %}"),
                       "begins"));
  EXPECT_TRUE(contains(says("{{ raise_exception('no') }}"),
                       "rejects the conversation: no. Correct or remove the example"));
}

// As Qwen 2.5: the template reads the first message, so it rejects an empty conversation.
TEST_F(ChatTest, AConversationMayBeginWithTheAssistant) {
  const std::string chats =
      "{% if messages[0].role != 'system' %}<|im_start|>system\nS<|im_end|>\n{% endif %}"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
  const std::string line =
      R"({"messages": [{"role": "assistant", "content": "A"}, {"role": "user", "content": "U"},
          {"role": "assistant", "content": "B"}]})";
  const std::string asks = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_EQ(shown(chats + asks, line),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>assistant\n[A<|im_end|>]\n"
            "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n[B<|im_end|>]\n");
  // Without a special token in the prompt for an answer, its begin is not certain.
  EXPECT_EQ(error_of([&] {
              form(chats + "{% if add_generation_prompt %}S{% endif %}")
                  .apply(chat(line), Learned::kAnswers);
            }),
            "t.jinja: the conversation begins with the assistant, but the template requires a "
            "message before its answer. Remove the first message, or mark it with \"train\": "
            "false");
  const std::string unlearned =
      R"({"messages": [{"role": "assistant", "content": "A", "train": false},
          {"role": "user", "content": "U"}, {"role": "assistant", "content": "B"}]})";
  EXPECT_TRUE(contains(shown(chats, unlearned), "assistant\nA<|im_end|>\n"));
  // As Mistral's.
  EXPECT_TRUE(contains(error_of([&] {
                         form(
                             "{% if messages[0].role == 'assistant' %}"
                             "{{ raise_exception('roles must alternate') }}{% endif %}")
                             .apply(chat(line), Learned::kAnswers);
                       }),
                       "rejects the conversation: roles must alternate. The conversation begins "
                       "with the assistant. Remove that message, or the example"));
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

TEST_F(ChatTest, ASystemMessageMayBeNextToTheOthers) {
  const std::string expected = R"([{"role":"system","content":"S"},{"role":"user","content":"U"},)"
                               R"({"role":"assistant","content":"A"}])";
  const std::string user = R"({"role": "user", "content": "U"})",
                    answer = R"({"role": "assistant", "content": "A"})";
  for (const std::string& keys :
       {fmt::format(R"("messages": [{}, {}])", user, answer),
        std::string(R"("conversations": [{"from": "human", "value": "U"},
                       {"from": "gpt", "value": "A"}])"),
        std::string(R"("instruction": "U", "output": "A")"),
        std::string(R"("prompt": "U", "completion": "A")"),
        fmt::format(R"("prompt": [{}], "completion": [{}])", user, answer),
        std::string(R"("prompt": "U", "chosen": "A", "rejected": "B")"),
        fmt::format(R"("prompt": [{}], "chosen": [{}], "rejected": [])", user, answer),
        fmt::format(R"("prompt": "U", "chosen": [{}, {}], "rejected": [])", user, answer),
        fmt::format(R"("chosen": [{}, {}], "rejected": [])", user, answer),
        std::string(R"("question": "U", "chosen": "A", "rejected": "B")"),
        std::string(R"("instruction": "U", "chosen": "A", "rejected": "B")")})
    for (const char* name : {"system", "system_prompt"})
      EXPECT_EQ(to_json(chat(fmt::format(R"({{{}, "{}": "S"}})", keys, name)).messages), expected)
          << keys << " " << name;
  // A text that the messages do not repeat is a message of its own.
  EXPECT_EQ(
      to_json(
          chat(fmt::format(R"({{"prompt": "S", "completion": [{}, {}]}})", user, answer)).messages),
      R"([{"role":"user","content":"S"},{"role":"user","content":"U"},)"
      R"({"role":"assistant","content":"A"}])");
  // The same message twice is one; two different ones are an error; an empty one is none.
  const std::string with_own = fmt::format(
      R"({{"messages": [{{"role": "system", "content": "S"}}, {}, {}], "system": )", user, answer);
  EXPECT_EQ(to_json(chat(with_own + R"("S"})").messages), expected);
  EXPECT_EQ(to_json(chat(with_own + R"(""})").messages), expected);
  EXPECT_EQ(error_of([&] { chat(with_own + R"("T"})"); }),
            "f:1: 'system' and the first message are two system messages with different texts. "
            "Remove one of them");
  EXPECT_EQ(error_of([&] { chat(with_own + "3}"); }),
            "f:1: 'system' is an integer, expected a text");
  EXPECT_TRUE(contains(error_of([&] { chat(R"({"messages": [], "system": "S"})"); }),
                       "the conversation is empty"));
}

TEST_F(ChatTest, KeysThatAreNotRead) {
  using Keys = std::vector<std::string>;
  const auto unread = [&](const std::string& line, bool plain = false) {
    const Tree tree = parse_json(line, "line");
    const ConversationReader reader(ChatNames{{{"input", "context"}}, {}});
    return reader.unread(tree, reader.form_of(tree, "f:1"), plain);
  };
  EXPECT_EQ(unread(R"({"id": 1, "messages": [], "system": "S", "tools": [], "source": "x",
                      "none": null, "empty": ""})"),
            (Keys{"id", "source"}));
  EXPECT_EQ(unread(R"({"instruction": "I", "context": "C", "output": "O", "input": "x"})"),
            Keys{"input"});
  EXPECT_EQ(unread(R"({"prompt": "P", "completion": "C", "system_prompt": "S"})"), Keys{});
  EXPECT_EQ(unread(R"({"prompt": "P", "completion": "C", "tools": "[{}]"})", true), Keys{"tools"});
  EXPECT_EQ(unread(R"({"prompt": "P", "question": "Q", "chosen": "C", "rejected": "R"})"),
            Keys{"question"});
  EXPECT_EQ(unread(R"({"question": "Q", "chosen": "C", "rejected": "R", "label": 1})"),
            Keys{"label"});
  EXPECT_EQ(unread(R"({"text": "T", "system": "S"})", true), Keys{"system"});
}

TEST_F(ChatTest, ProblemsAreWarnings) {
  using Texts = std::vector<std::string>;
  const auto counts = [&](const std::string& lines, const std::string& text) {
    InstructionSpec s;
    s.files = {put("c.jsonl", lines)};
    s.sequence_length = 200;
    s.chat.form = std::make_shared<const ChatTemplate>(form(text));
    return InstructionData(s, tokenizer_).counts();
  };
  const std::string good = R"({"messages": [{"role": "user", "content": "U"},
      {"role": "assistant", "content": "A"}], "id": 7, "prompt": "U"})";
  const auto one_line = [](std::string text) {
    std::erase(text, '\n');
    return text + "\n";
  };
  const InstructionCounts fine = counts(one_line(good), kChatMl);
  EXPECT_EQ(fine.unread, (Texts{"id", "prompt"}));
  EXPECT_EQ(fine.warnings, Texts{});  // the prompt is also in the messages
  EXPECT_TRUE(contains(describe(fine), " · form: messages · keys not read: id, prompt"));

  EXPECT_EQ(counts(R"({"instruction": "U", "output": "A", "context": "C"})", kChatMl).warnings,
            Texts{"'context' has text that is not read in the form alpaca. If it belongs to the "
                  "question, set data.keys: {input: context}"});
  EXPECT_EQ(counts(R"({"prompt": "U", "completion": "A", "input": "C"})", kChatMl).warnings,
            Texts{"'input' has text that is not read in the form prompt_completion. If it belongs "
                  "to the prompt, add it to the prompt or to a message"});

  const std::string calls = one_line(R"({"tools": [{"name": "f"}], "messages": [
      {"role": "user", "content": "U"}, {"role": "assistant", "content": "",
       "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]})");
  EXPECT_EQ(
      counts(one_line(good) + calls + calls, kChatMl).warnings,
      (Texts{"2 of 2 conversations with tools: the chat template does not write the tools. Use a "
             "template that does",
             "2 of 2 conversations with tool calls: the chat template does not write the calls, so "
             "they are not learned. Use a template that does",
             "2 of 3 learned answers have no text, so the model learns to answer nothing there. "
             "Remove them, or mark them with \"train\": false"}));
  EXPECT_EQ(counts(calls,
                   "{{ tools[0].name }}{% for m in messages %}<|im_start|>{{ m.content }}"
                   "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}<|im_end|>"
                   "{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}")
                .warnings,
            Texts{});
  const std::string endless =
      "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %}"
      "{% endfor %}";
  EXPECT_EQ(counts(one_line(good), endless).warnings,
            Texts{"no learned answer has a token that ends a turn, so the model does not learn to "
                  "stop. End the answers of the chat template with {{ eos_token }}, within "
                  "{% generation %} if it has such blocks"});
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
  s.files = {put("s.jsonl",
                 "{\"prompt\": \"P\", \"completion\": \"C\"}\n"
                 "{\"prompt\": \"P\", \"completion\": \"C\", \"system\": \"\"}\n")};
  EXPECT_TRUE(contains(error_of([&] { InstructionData(s, tokenizer_); }),
                       "s.jsonl:2: this example is a conversation, but line 1 of the file is a "
                       "plain text. Give all lines"));
  s.files = {put("m.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"U\"}]}\n")};
  EXPECT_TRUE(contains(error_of([&] { InstructionData(s, tokenizer_); }),
                       "m.jsonl:1: a conversation needs a chat template"));
}

}  // namespace
}  // namespace tessera::data
