// Conversations: the forms of chat data that people have, converted to one form, which chat
// templates read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/tree.h"

namespace tessera::data {

// The form of a line. A file has one form, the form of its first line.
//   messages           messages: [{role, content, …}], system, tools
//   sharegpt           conversations: [{from, value}], system, tools
//   alpaca             instruction, input, output, system, tools, history: [[question, answer], …]
//   prompt_completion  prompt, completion: both texts, or both lists of messages; system, tools
//   preference         chosen, rejected, and prompt, question or instruction (with the other keys
//                      of alpaca); system, tools; the chosen answer is read
//   text               text
//
// "system" (or "system_prompt") is the text of a system message in front of the messages. Texts
// with "system" or "question" are a conversation: its messages are of system, user and assistant.
enum class ChatForm : uint8_t {
  kMessages,
  kShareGpt,
  kAlpaca,
  kPromptCompletion,
  kPreference,
  kText
};
constexpr const char* enum_names(ChatForm) {
  return "messages|sharegpt|alpaca|prompt_completion|preference|text";
}

// Other names for the keys and roles of the forms: data.keys and data.roles.
struct ChatNames {
  std::map<std::string, std::string> keys;   // our key → that of the file
  std::map<std::string, std::string> roles;  // role in the file → user, assistant, system or tool
};

struct Conversation {
  // Objects with "role", "content" and what else the line has, such as "tool_calls".
  Tree messages = Tree::list();
  Tree tools;                 // a list; null: none
  std::vector<char> learned;  // per message: 1 if its answer has a loss
};

// Returns the messages with their thoughts, which files call reasoning_content, thinking or
// reasoning, under the first two names, as transformers does for templates that read either.
Tree::List with_reasoning_names(Tree::List messages);

// A line: a conversation, or a prompt and a completion as plain texts that no template surrounds.
struct ChatExample {
  bool is_plain = false;
  Conversation chat;
  std::string prompt, completion;  // if is_plain
};

class ConversationReader {
 public:
  explicit ConversationReader(ChatNames names) : names_(std::move(names)) {}

  // Returns the form of a line. Throws Error that starts with `place` and lists the known forms if
  // it has none of them.
  ChatForm form_of(const Tree& line, const std::string& place) const;

  // Converts a line of that form. Texts in a list of {"type": "text"} are joined. The arguments of
  // a tool call that are a text are parsed. "train": false, "training": false or "weight": 0 in a
  // message turns its loss off. Throws Error that names the place, the key and what was found, also
  // if the line has two system messages with different texts.
  ChatExample read(const Tree& line, ChatForm form, const std::string& place) const;

  // Throws Error if the texts "chosen" and "rejected" of a line have no prompt, but the line has a
  // key that may be the prompt or belongs to one, such as "input".
  void require_prompt(const Tree& line, const std::string& place) const;

  // Returns the keys with a value, in the order of the line, that read() ignores in a line of that
  // form. `plain`: the line is read as plain texts.
  std::vector<std::string> unread(const Tree& line, ChatForm form, bool plain) const;

 private:
  std::string_view key(std::string_view ours) const;
  const Tree* find(const Tree& object, std::string_view ours) const;
  const std::string& text(const Tree& object, std::string_view ours,
                          const std::string& place) const;
  const std::string& role_of(const std::string& theirs, const std::string& place) const;
  void add_message(const Tree& message, bool learned, const std::string& place,
                   Conversation& out) const;
  void add_messages(const Tree& list, bool learned, const std::string& place,
                    Conversation& out) const;
  void add_share_gpt(const Tree& turn, const std::string& place, Conversation& out) const;
  void add_turn(std::string_view role, const std::string& content, Conversation& out) const;
  const Tree* find_system(const Tree& line) const;
  void put_system(const Tree& line, const std::string& place, Conversation& out) const;
  void add_tools(const Tree& line, const std::string& place, Conversation& out) const;
  bool repeats_prompt(const Tree& line, std::string_view prompt, const Tree& answer) const;
  ChatExample read_alpaca(const Tree& line, std::string_view answer,
                          const std::string& place) const;
  ChatExample read_pair(const Tree& line, std::string_view answer, const std::string& place) const;

  ChatNames names_;
};

}  // namespace tessera::data
