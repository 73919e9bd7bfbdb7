#include "data/chat_settings.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::data {
namespace {

// The answer of the short conversation: a character for private use, which no template writes.
constexpr const char* kAnswer = "\xf3\xb0\x80\x80";

std::vector<std::string> first_of(const std::vector<std::string>& names, std::string_view text) {
  size_t first = text.npos;
  std::string_view found;
  for (const std::string& name : names) {
    const size_t at = text.find(name);
    if (at == text.npos || at > first || (at == first && name.size() < found.size())) continue;
    first = at;
    found = name;
  }
  return found.empty() ? names : std::vector<std::string>{std::string(found)};
}

}  // namespace

ChatSettings chat_settings(std::string text, std::string source, const Tree& variables,
                           const std::vector<int32_t>& stops, const Tokenizer& tokenizer) {
  ChatSettings settings;
  settings.text = std::move(text);
  settings.source = std::move(source);
  settings.variables = Tree::object();
  if (const auto begin = tokenizer.text_begin())
    settings.variables.set("bos_token", Tree(std::string(tokenizer.token_bytes(*begin))));
  if (const auto end = tokenizer.end_of_text())
    settings.variables.set("eos_token", Tree(std::string(tokenizer.token_bytes(*end))));
  if (variables.as_members() != nullptr)
    for (const auto& [name, value] : *variables.as_members()) settings.variables.set(name, value);
  settings.ends = known_turn_ends(tokenizer);
  const auto add = [&](std::string name) {
    if (!name.empty() &&
        std::find(settings.ends.begin(), settings.ends.end(), name) == settings.ends.end())
      settings.ends.push_back(std::move(name));
  };
  if (const Tree* end = settings.variables.find("eos_token"); end && end->as_string())
    add(*end->as_string());
  for (const int32_t id : stops)
    if (id < tokenizer.vocabulary_size()) add(std::string(tokenizer.token_bytes(id)));
  return settings;
}

std::vector<std::string> answer_ends(const ChatTemplate& form) {
  Tree user, answer;
  user.set("role", Tree(std::string("user")));
  user.set("content", Tree(std::string("question")));
  answer.set("role", Tree(std::string("assistant")));
  answer.set("content", Tree(std::string(kAnswer)));
  try {
    const std::string text = form.render({user, answer}, Tree(), false);
    const size_t at = text.find(kAnswer);
    return at == text.npos ? form.ends() : first_of(form.ends(), std::string_view(text).substr(at));
  } catch (const Error&) {
    return form.ends();  // the template needs other messages than these
  }
}

}  // namespace tessera::data
