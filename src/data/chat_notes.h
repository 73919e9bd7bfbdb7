// Facts about chat data that a user should see before the training: keys that are not read, parts
// that the template does not write, and answers from which the model learns nothing.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/tree.h"
#include "data/conversation.h"

namespace tessera::data {

// Counts over all conversations and texts that were encoded. A pair of answers has two.
struct ChatNotes {
  // Conversations with tools, and those whose tools the template does not write.
  int64_t with_tools = 0, unwritten_tools = 0;
  // Conversations with tool calls, and those whose calls the template does not write.
  int64_t with_calls = 0, unwritten_calls = 0;
  // Learned answers, and those without a text.
  int64_t answers = 0, empty_answers = 0;
  // Learned answers in conversations, and how many of them have a turn-ending token.
  int64_t chat_answers = 0, ended_answers = 0;
  std::set<std::string> unread;  // keys with a value that are not read
  // The unread keys that are usually a part of the prompt and whose text is not in the messages,
  // and the form of their file.
  std::map<std::string, ChatForm> dropped;

  // Adds the keys of a line that were not read. `read` is what was made of the line.
  void add_unread(const std::vector<std::string>& keys, const Tree& line, ChatForm form,
                  const ChatExample& read);
};

// Returns one sentence per problem, with its counts and what to do.
std::vector<std::string> warnings(const ChatNotes& notes);

}  // namespace tessera::data
