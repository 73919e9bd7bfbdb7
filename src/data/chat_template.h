// Chat templates applied to conversations: the text, and which of its bytes have a loss.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/conversation.h"
#include "data/tokenizer.h"
#include "jinja/template.h"

namespace tessera::data {

// Which parts of a conversation have a loss.
enum class Learned : uint8_t { kAnswers, kLastAnswer, kEverything };
constexpr const char* enum_names(Learned) { return "answers|last_answer|everything"; }

// The settings that a chat template needs in addition to a conversation.
struct ChatSettings {
  std::string text;               // the template, in Jinja
  std::string source;             // names it in messages
  Tree variables;                 // further variables: bos_token, eos_token, enable_thinking, …
  std::vector<std::string> ends;  // names of tokens that end a turn, such as <|im_end|>
  std::optional<std::tm> now;     // for templates that write the date
};

using ByteSpan = std::pair<size_t, size_t>;  // [first, second)

struct ChatText {
  std::string text;
  std::vector<ByteSpan> learned;  // ascending, disjoint
};

// Finds the answers in the text of a template.
//
// If the template has {% generation %} blocks, their texts are the answers. Otherwise an answer
// begins where the template, applied to the messages before it with the prompt for generation,
// ends. Some templates are not stable: the text of earlier messages depends on later ones. Then a
// mark, a character for private use, at the end of each message shows where the messages are, and
// the answer begins after as much of that prompt as both texts have in common, up to the end of a
// special token. If the template rejects an empty conversation, an answer that is the first message
// begins after the first occurrence of the prompt that follows a user message. An answer ends with
// the first token after its mark that ends a turn, which is learned. If an answer cannot be found
// this way, apply() throws Error instead of learning the wrong text.
class ChatTemplate {
 public:
  // Throws Error with line and column if the template is not valid or not supported.
  ChatTemplate(ChatSettings settings, const Tokenizer& tokenizer);

  const std::string& source() const { return template_.source(); }
  const std::string& text() const { return settings_.text; }
  const std::vector<std::string>& ends() const { return settings_.ends; }

  // Throws Error with the place in the template and what to do, for example if it rejects the order
  // of roles or writes no token after an answer that ends it.
  ChatText apply(const Conversation& chat, Learned learned) const;

  // Returns the text of messages, with the prompt for an answer if `prompt`.
  std::string render(const Tree::List& messages, const Tree& tools, bool prompt) const;

 private:
  struct Marked;
  class Finder;
  jinja::RenderedText rendered(const Tree::List& messages, const Tree& tools, bool prompt) const;
  jinja::RenderedText rendered_example(const Tree::List& messages, const Tree& tools) const;
  std::vector<ByteSpan> generated(const Conversation& chat, const jinja::RenderedText& text) const;

  ChatSettings settings_;
  jinja::Template template_;
  std::vector<std::string> specials_;  // names of the tokenizer's special tokens
  // Names that end turns in published templates but are not special tokens of the tokenizer, and
  // how many tokens each is.
  std::vector<std::pair<std::string, size_t>> foreign_ends_;
};

// Returns the tokens of the tokenizer that end a turn in published templates, such as <|im_end|>,
// and its end-of-text token.
std::vector<std::string> known_turn_ends(const Tokenizer& tokenizer);

// Encodes a text and sets learned[i] to 1 for each new token that has a byte in one of the spans,
// which is how transformers maps characters to tokens. Special tokens are recognized by their
// names. Throws Error if the tokens cannot be aligned with the text, because the tokenizer changes
// it.
void encode_chat(const Tokenizer& tokenizer, const ChatText& chat, std::vector<int32_t>& ids,
                 std::vector<char>& learned, EncodeCache& cache);

}  // namespace tessera::data
