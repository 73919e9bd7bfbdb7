// Collects facts about chat data while it is encoded, and writes them as warnings.
#include "data/chat_notes.h"

#include <algorithm>
#include <array>

#include "base/config.h"
#include "base/count.h"
#include "base/error.h"

namespace tessera::data {
namespace {

// Keys that hold a part of the prompt in some form of chat data.
constexpr std::array kPromptKeys{"prompt",  "question",    "query",        "input",
                                 "context", "instruction", "history",      "system",
                                 "tools",   "messages",    "system_prompt"};

// Returns true if the text is in a message or in the plain texts.
bool has_text(const ChatExample& example, const std::string& text) {
  if (example.prompt.find(text) != text.npos || example.completion.find(text) != text.npos)
    return true;
  const Tree::List& messages = *example.chat.messages.as_list();
  return std::any_of(messages.begin(), messages.end(), [&](const Tree& m) {
    const Tree* content = m.find("content");
    return content != nullptr && content->as_string() != nullptr &&
           content->as_string()->find(text) != text.npos;
  });
}

std::string part_of(int64_t count, int64_t all, const char* what) {
  return fmt::format("{} of {} {}{}", format_count(count), format_count(all), what,
                     all == 1 ? "" : "s");
}

}  // namespace

void ChatNotes::add_unread(const std::vector<std::string>& keys, const Tree& line, ChatForm form,
                           const ChatExample& read) {
  for (const std::string& key : keys) {
    unread.insert(key);
    if (std::find(kPromptKeys.begin(), kPromptKeys.end(), key) == kPromptKeys.end()) continue;
    const Tree& value = *line.find(key);
    const bool is_dropped = value.as_string() != nullptr ? !has_text(read, *value.as_string())
                                                         : value.as_list() != nullptr;
    if (is_dropped) dropped.emplace(key, form);
  }
}

std::vector<std::string> warnings(const ChatNotes& n) {
  std::vector<std::string> out;
  for (const auto& [key, form] : n.dropped)
    out.push_back(fmt::format(
        "'{}' has text that is not read in the form {}. {}", key, name_of_entry(form),
        form == ChatForm::kAlpaca
            ? fmt::format("If it belongs to the question, set data.keys: {{input: {}}}", key)
            : "If it belongs to the prompt, add it to the prompt or to a message"));
  if (n.unwritten_tools > 0)
    out.push_back(fmt::format(
        "{} with tools: the chat template does not write the tools. Use a template that does",
        part_of(n.unwritten_tools, n.with_tools, "conversation")));
  if (n.unwritten_calls > 0)
    out.push_back(fmt::format(
        "{} with tool calls: the chat template does not write the calls, so they are not learned. "
        "Use a template that does",
        part_of(n.unwritten_calls, n.with_calls, "conversation")));
  if (n.empty_answers > 0)
    out.push_back(fmt::format(
        "{} no text, so the model learns to answer nothing there. Remove them, or mark them with "
        "\"train\": false",
        part_of(n.empty_answers, n.answers, "learned answer") +
            (n.empty_answers == 1 ? " has" : " have")));
  if (n.chat_answers > 0 && n.ended_answers == 0)
    out.push_back(
        "no learned answer has a token that ends a turn, so the model does not learn to stop. End "
        "the answers of the chat template with {{ eos_token }}, within {% generation %} if it has "
        "such blocks");
  return out;
}

}  // namespace tessera::data
