// Converts the forms of chat data to messages. The first key that only one form has decides.
//
// A file has one of six forms. A key that only one form has decides, in an order that resolves
// overlaps: a preference pair also has a prompt, and a conversation may also have a text. Names of
// keys and roles that a user gives are applied first.
//
// Every message becomes {role, content, …} with other members unchanged, because a template may
// read any of them. A member that is null is dropped, since templates print it as "None". `learned`
// has one flag per message: messages of a prompt and those that a key such as "train": false marks
// have no loss.
#include "data/conversation.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tessera::data {
namespace {

// Roles in files, each with its role in chat templates.
constexpr std::array kRoles{
    std::pair{"human", "user"},        std::pair{"user", "user"},
    std::pair{"gpt", "assistant"},     std::pair{"assistant", "assistant"},
    std::pair{"model", "assistant"},   std::pair{"function_call", "assistant"},
    std::pair{"system", "system"},     std::pair{"developer", "developer"},
    std::pair{"observation", "tool"},  std::pair{"tool", "tool"},
    std::pair{"function", "function"}, std::pair{"ipython", "ipython"}};
constexpr std::array kTrainKeys{"train", "training", "weight"};

// Keys that are the prompt, or a part of it, in data of other forms.
constexpr std::array kPromptKeys{"input", "query", "context", "system", "system_prompt"};

const Tree::List& list_of(const Tree& value, std::string_view key, const std::string& place) {
  if (value.as_list() == nullptr)
    throw Error("{}: '{}' is {}, expected a list", place, key, kind_of(value));
  return *value.as_list();
}

// Returns a text, or the texts in a list of {"type": "text", "text": …}, joined.
Tree joined_content(const Tree& content, const std::string& place) {
  if (content.as_string() != nullptr || content.is_null()) return content;
  std::string all;
  for (const Tree& part : list_of(content, "content", place)) {
    const Tree* text = part.as_members() != nullptr ? part.find("text") : nullptr;
    if (text == nullptr || text->as_string() == nullptr) {
      const Tree* type = part.as_members() != nullptr ? part.find("type") : nullptr;
      throw Error("{}: 'content' has a part {}. Only texts are supported", place,
                  type != nullptr ? "whose type is " + to_json(*type) : "without a text");
    }
    all += *text->as_string();
  }
  return Tree(std::move(all));
}

// Parses the arguments of tool calls that are the text of an object, as OpenAI's API returns them.
Tree with_parsed_arguments(Tree calls, const std::string& place) {
  auto* list = std::get_if<Tree::List>(&calls.value);
  if (list == nullptr) return calls;
  for (Tree& call : *list) {
    if (call.as_members() == nullptr) continue;
    const Tree* function = call.find("function");
    Tree own = function != nullptr ? *function : call;
    const Tree* arguments = own.as_members() != nullptr ? own.find("arguments") : nullptr;
    if (arguments == nullptr || arguments->as_string() == nullptr) continue;
    if (!arguments->as_string()->starts_with('{')) continue;
    Tree parsed = parse_json(*arguments->as_string(), place + ": the arguments of a tool call");
    own.set("arguments", std::move(parsed));
    if (function != nullptr)
      call.set("function", std::move(own));
    else
      call = std::move(own);
  }
  return calls;
}

// Returns true if the value is an empty text, list or object, or null.
bool is_empty(const Tree& value) {
  if (const std::string* text = value.as_string()) return text->empty();
  if (const Tree::List* list = value.as_list()) return list->empty();
  if (const Tree::Members* members = value.as_members()) return members->empty();
  return value.is_null();
}

bool has_role(const Tree& message, std::string_view role) {
  const Tree* own = message.as_members() != nullptr ? message.find("role") : nullptr;
  return own != nullptr && own->as_string() != nullptr && *own->as_string() == role;
}

// Returns our names of the keys that a form reads.
std::vector<std::string_view> keys_read(ChatForm form, bool plain, bool has_instruction,
                                        bool has_prompt) {
  using Keys = std::vector<std::string_view>;
  Keys keys;
  switch (form) {
    case ChatForm::kMessages:
      keys = {"messages"};
      break;
    case ChatForm::kShareGpt:
      keys = {"conversations"};
      break;
    case ChatForm::kAlpaca:
      keys = {"instruction", "input", "output", "history"};
      break;
    case ChatForm::kPromptCompletion:
      keys = {"prompt", "completion"};
      break;
    case ChatForm::kPreference:
      keys = has_instruction ? Keys{"chosen", "rejected", "instruction", "input", "history"}
                             : Keys{"chosen", "rejected", has_prompt ? "prompt" : "question"};
      break;
    case ChatForm::kText:
      return {"text"};
  }
  if (!plain) keys.insert(keys.end(), {"system", "tools"});
  return keys;
}

// Returns whether a mark excludes a message from the loss. Throws Error unless it is true, false,
// 1 or 0: a loss cannot be weighted by message.
bool is_off(const Tree& value, std::string_view name, const std::string& place) {
  if (const bool* b = std::get_if<bool>(&value.value)) return !*b;
  const std::optional<double> number = number_in(value);
  if (number != 0.0 && number != 1.0)
    throw Error("{}: '{}' is {}, expected true, false, 1 or 0", place, name, to_json(value));
  return number == 0.0;
}

}  // namespace

Tree::List with_reasoning_names(Tree::List messages) {
  for (Tree& m : messages) {
    const auto given = [&](const char* name) {
      const Tree* value = m.as_members() != nullptr ? m.find(name) : nullptr;
      return value != nullptr && !value->is_null() ? value : nullptr;
    };
    const Tree* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"})
      if (reasoning == nullptr) reasoning = given(name);
    if (reasoning == nullptr) continue;
    const Tree value = *reasoning;
    Tree own = Tree::object();
    own.set("thinking", value);
    for (const auto& [name, member] : *m.as_members()) own.set(name, member);
    own.set("reasoning_content", value);
    m = std::move(own);
  }
  return messages;
}

std::string_view ConversationReader::key(std::string_view ours) const {
  const auto found = names_.keys.find(std::string(ours));
  return found == names_.keys.end() ? ours : std::string_view(found->second);
}

// Returns the member under one of our keys; nullptr: there is none, or it is null.
const Tree* ConversationReader::find(const Tree& object, std::string_view ours) const {
  const Tree* value = object.find(key(ours));
  return value != nullptr && !value->is_null() ? value : nullptr;
}

const std::string& ConversationReader::text(const Tree& object, std::string_view ours,
                                            const std::string& place) const {
  const Tree* value = find(object, ours);
  if (value == nullptr)
    throw Error("{}: there is no '{}'; the object has {}", place, key(ours), keys_of(object));
  if (value->as_string() == nullptr)
    throw Error("{}: '{}' is {}, expected a text", place, key(ours), kind_of(*value));
  return *value->as_string();
}

const std::string& ConversationReader::role_of(const std::string& theirs,
                                               const std::string& place) const {
  const auto named = names_.roles.find(theirs);
  if (named != names_.roles.end()) return named->second;
  static const std::map<std::string, std::string> known(kRoles.begin(), kRoles.end());
  const auto found = known.find(theirs);
  if (found == known.end())
    throw Error(
        "{}: the role '{}' is unknown. Name it in data.roles, for example {{assistant: ['{}']}}",
        place, theirs, theirs);
  return found->second;
}

ChatForm ConversationReader::form_of(const Tree& line, const std::string& place) const {
  if (line.as_members() == nullptr)
    throw Error("{}: found {}, expected one JSON object per example", place, kind_of(line));
  const auto has = [&](std::string_view ours) { return find(line, ours) != nullptr; };
  if (has("chosen") && has("rejected")) return ChatForm::kPreference;
  if (has("messages")) return ChatForm::kMessages;
  if (has("conversations")) return ChatForm::kShareGpt;
  if (has("instruction") && has("output")) return ChatForm::kAlpaca;
  if (has("prompt") && has("completion")) return ChatForm::kPromptCompletion;
  if (has("text")) return ChatForm::kText;
  throw Error(
      "{}: the object has {}, which is not a known form. Expected 'messages', 'conversations', "
      "'instruction' and 'output', 'prompt' and 'completion', 'chosen' and 'rejected', or 'text'. "
      "Name other keys in data.keys, for example {{messages: dialogue}}",
      place, keys_of(line));
}

void ConversationReader::add_turn(std::string_view role, const std::string& content,
                                  Conversation& out) const {
  Tree message;
  message.set("role", Tree(std::string(role)));
  message.set("content", Tree(content));
  out.messages.push(std::move(message));
  out.learned.push_back(1);
}

void ConversationReader::add_message(const Tree& message, bool learned, const std::string& place,
                                     Conversation& out) const {
  if (message.as_members() == nullptr)
    throw Error("{}: found {}, expected an object with 'role' and 'content'", place,
                kind_of(message));
  Tree own;
  own.set("role", Tree(role_of(text(message, "role", place), place)));
  for (const auto& [name, value] : *message.as_members()) {
    // Templates print a content that is null as "None". transformers leaves such members out, too.
    if (name == key("role") || value.is_null()) continue;
    if (std::find(kTrainKeys.begin(), kTrainKeys.end(), name) != kTrainKeys.end()) {
      learned = !is_off(value, name, place) && learned;
    } else if (name == key("content")) {
      own.set("content", joined_content(value, place));
    } else if (name == "tool_calls") {
      own.set(name, with_parsed_arguments(value, place));
    } else {
      own.set(name, value);
    }
  }
  if (const Tree* content = message.find(key("content"));
      own.find("content") == nullptr && own.find("tool_calls") == nullptr && content != nullptr)
    throw Error("{}: '{}' is null, expected a text. Only a message with tool_calls may have null",
                place, key("content"));
  if (own.find("content") == nullptr && own.find("tool_calls") == nullptr)
    throw Error("{}: there is no '{}'; the object has {}", place, key("content"), keys_of(message));
  out.messages.push(std::move(own));
  out.learned.push_back(learned ? 1 : 0);
}

void ConversationReader::add_messages(const Tree& list, bool learned, const std::string& place,
                                      Conversation& out) const {
  size_t at = 0;
  for (const Tree& m : list_of(list, "messages", place))
    add_message(m, learned, fmt::format("{}: messages[{}]", place, at++), out);
}

void ConversationReader::add_share_gpt(const Tree& turn, const std::string& place,
                                       Conversation& out) const {
  if (turn.as_members() == nullptr)
    throw Error("{}: found {}, expected an object with 'from' and 'value'", place, kind_of(turn));
  const std::string& from = text(turn, "from", place);
  const std::string& value = text(turn, "value", place);
  const std::string& role = role_of(from, place);
  Tree message;
  message.set("role", Tree(role));
  if (from == "function_call") {
    Tree call, calls = Tree::list();
    call.set("type", Tree(std::string("function")));
    call.set("function", parse_json(value, place + ": the function call"));
    calls.push(std::move(call));
    message.set("content", Tree(std::string()));
    message.set("tool_calls", with_parsed_arguments(std::move(calls), place));
  } else {
    message.set("content", Tree(value));
  }
  bool learned = true;
  for (const char* name : kTrainKeys)
    if (const Tree* flag = turn.find(name); flag != nullptr && !flag->is_null())
      learned = !is_off(*flag, name, place) && learned;
  out.messages.push(std::move(message));
  out.learned.push_back(learned ? 1 : 0);
}

const Tree* ConversationReader::find_system(const Tree& line) const {
  const Tree* value = find(line, "system");
  if (value != nullptr || names_.keys.contains("system")) return value;
  value = line.find("system_prompt");
  return value != nullptr && !value->is_null() ? value : nullptr;
}

// Puts the system message of a line in front of its messages.
void ConversationReader::put_system(const Tree& line, const std::string& place,
                                    Conversation& out) const {
  const Tree* value = find_system(line);
  if (value == nullptr) return;
  if (value->as_string() == nullptr)
    throw Error("{}: '{}' is {}, expected a text", place, key("system"), kind_of(*value));
  if (value->as_string()->empty()) return;
  const Tree::List messages = *out.messages.as_list();
  if (!messages.empty() &&
      (has_role(messages[0], "system") || has_role(messages[0], "developer"))) {
    const Tree* first = messages[0].find("content");
    if (first != nullptr && to_json(*first) == to_json(*value)) return;
    throw Error(
        "{}: '{}' and the first message are two system messages with different texts. Remove one "
        "of them",
        place, key("system"));
  }
  Tree message;
  message.set("role", Tree(std::string("system")));
  message.set("content", *value);
  out.messages = Tree::list();
  out.messages.push(std::move(message));
  for (const Tree& m : messages) out.messages.push(m);
  out.learned.insert(out.learned.begin(), 1);
}

void ConversationReader::add_tools(const Tree& line, const std::string& place,
                                   Conversation& out) const {
  const Tree* tools = find(line, "tools");
  if (tools == nullptr) return;
  Tree list = *tools;
  if (const std::string* s = tools->as_string()) {
    if (s->empty()) return;
    list = parse_json(*s, place + ": 'tools'");
  }
  if (!list_of(list, key("tools"), place).empty()) out.tools = std::move(list);
}

// Reads instruction, input and history, with the answer under the key `answer`.
ChatExample ConversationReader::read_alpaca(const Tree& line, std::string_view answer,
                                            const std::string& place) const {
  ChatExample e;
  add_tools(line, place, e.chat);
  if (const Tree* history = find(line, "history")) {
    for (const Tree& turn : list_of(*history, key("history"), place)) {
      const Tree::List* two = turn.as_list();
      if (two == nullptr || two->size() != 2 || (*two)[0].as_string() == nullptr ||
          (*two)[1].as_string() == nullptr)
        throw Error("{}: '{}' needs pairs [question, answer]", place, key("history"));
      add_turn("user", *(*two)[0].as_string(), e.chat);
      add_turn("assistant", *(*two)[1].as_string(), e.chat);
    }
  }
  std::string question = text(line, "instruction", place);
  if (find(line, "input") != nullptr) {
    const std::string& input = text(line, "input", place);
    if (!input.empty()) question += "\n" + input;
  }
  add_turn("user", question, e.chat);
  add_turn("assistant", text(line, answer, place), e.chat);
  put_system(line, place, e.chat);
  return e;
}

// Returns true if `answer` is a list of several messages, one of which repeats the text of the
// prompt.
bool ConversationReader::repeats_prompt(const Tree& line, std::string_view prompt,
                                        const Tree& answer) const {
  const Tree* own = find(line, prompt);
  const Tree::List* list = answer.as_list();
  if (own == nullptr || own->as_string() == nullptr || list == nullptr || list->size() < 2)
    return false;
  return std::any_of(list->begin(), list->end(), [&](const Tree& m) {
    const Tree* content = m.as_members() != nullptr ? find(m, "content") : nullptr;
    return content != nullptr && content->as_string() != nullptr &&
           *content->as_string() == *own->as_string();
  });
}

// Reads a prompt and the answer under the key `answer`. Without a prompt, or if it is a text that
// the messages repeat, the answer holds the whole conversation, and only its last message is
// learned.
ChatExample ConversationReader::read_pair(const Tree& line, std::string_view answer,
                                          const std::string& place) const {
  ChatExample e;
  const Tree* completion = find(line, answer);
  const bool messages = completion->as_list() != nullptr || completion->as_members() != nullptr;
  const Tree* prompt = find(line, "prompt");
  bool asks = prompt == nullptr && answer == "chosen" && find(line, "question") != nullptr;
  if (repeats_prompt(line, asks ? "question" : "prompt", *completion)) {
    prompt = nullptr;
    asks = false;
  }
  if (!messages && prompt == nullptr && !asks) require_prompt(line, place);
  if (!messages && !asks && find_system(line) == nullptr) {
    e.is_plain = true;
    e.completion = text(line, answer, place);
    if (prompt != nullptr) e.prompt = text(line, "prompt", place);
    return e;
  }
  add_tools(line, place, e.chat);
  if (prompt != nullptr && prompt->as_list() != nullptr && messages)
    add_messages(*prompt, false, place, e.chat);
  else if (prompt != nullptr || asks)
    add_turn("user", text(line, asks ? "question" : "prompt", place), e.chat);
  if (completion->as_list() != nullptr)
    add_messages(*completion, true, place, e.chat);
  else if (completion->as_members() != nullptr)
    add_message(*completion, true, place, e.chat);
  else
    add_turn("assistant", text(line, answer, place), e.chat);
  if (prompt == nullptr && !asks && !e.chat.learned.empty())
    std::fill(e.chat.learned.begin(), e.chat.learned.end() - 1, 0);
  put_system(line, place, e.chat);
  return e;
}

void ConversationReader::require_prompt(const Tree& line, const std::string& place) const {
  for (const char* name : {"prompt", "question", "instruction"})
    if (find(line, name) != nullptr) return;
  const Tree* chosen = find(line, "chosen");
  if (chosen == nullptr || chosen->as_string() == nullptr) return;
  for (const char* name : kPromptKeys) {
    const Tree* value = find(line, name);
    if (value == nullptr || is_empty(*value)) continue;
    const bool is_system = std::string_view(name).starts_with("system");
    throw Error("{}: the object has '{}' next to '{}' and '{}', but no '{}'. {}", place, key(name),
                key("chosen"), key("rejected"), key("prompt"),
                is_system
                    ? "Add it: the question to which both are answers"
                    : fmt::format("If it is the prompt, set data.keys: {{prompt: {}}}", key(name)));
  }
}

std::vector<std::string> ConversationReader::unread(const Tree& line, ChatForm form,
                                                    bool plain) const {
  const std::vector<std::string_view> ours =
      keys_read(form, plain, find(line, "instruction") != nullptr, find(line, "prompt") != nullptr);
  std::vector<std::string> out;
  for (const auto& member : *line.as_members()) {
    const Tree* const value = &member.second;
    const auto is_name = [&](std::string_view k) { return key(k) == member.first; };
    const bool is_read = std::any_of(ours.begin(), ours.end(), is_name) ||
                         (!plain && form != ChatForm::kText && find_system(line) == value);
    if (!is_read && !is_empty(*value)) out.push_back(member.first);
  }
  return out;
}

ChatExample ConversationReader::read(const Tree& line, ChatForm form,
                                     const std::string& place) const {
  ChatExample e;
  switch (form) {
    case ChatForm::kMessages:
      add_tools(line, place, e.chat);
      add_messages(*find(line, "messages"), true, place, e.chat);
      break;
    case ChatForm::kShareGpt: {
      add_tools(line, place, e.chat);
      size_t at = 0;
      for (const Tree& turn : list_of(*find(line, "conversations"), key("conversations"), place))
        add_share_gpt(turn, fmt::format("{}: conversations[{}]", place, at++), e.chat);
      break;
    }
    case ChatForm::kAlpaca:
      return read_alpaca(line, "output", place);
    case ChatForm::kPromptCompletion:
      return read_pair(line, "completion", place);
    case ChatForm::kPreference:
      return find(line, "instruction") != nullptr ? read_alpaca(line, "chosen", place)
                                                  : read_pair(line, "chosen", place);
    case ChatForm::kText:
      e.is_plain = true;
      e.completion = text(line, "text", place);
      return e;
  }
  if (e.chat.messages.as_list()->empty())
    throw Error("{}: the conversation is empty, expected messages of user and assistant", place);
  put_system(line, place, e.chat);
  return e;
}

}  // namespace tessera::data
