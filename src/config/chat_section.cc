// Reads and checks the keys of chat data. data.keys maps our names to those of a file; data.roles
// maps a role to the names that files use for it, and is inverted here (chat_names), because a
// reader looks up the name that it finds.
#include "config/chat_section.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "config/run_config.h"

namespace tessera::config {
namespace {

constexpr std::array kKeys{"messages", "role",    "content", "conversations", "from",
                           "value",    "tools",   "system",  "instruction",   "input",
                           "output",   "history", "prompt",  "completion",    "chosen",
                           "rejected", "label",   "margin",  "text"};
constexpr std::array kRoles{"user", "assistant", "system", "tool"};

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

const Tree::Members& members_of(const Tree& tree, std::string_view wanted,
                                const SourceLocation& place) {
  if (tree.as_members() == nullptr) wrong_value(tree, wanted, place);
  return *tree.as_members();
}

}  // namespace

void read_value(const Tree& tree, KeyNames& value, const SourceLocation& place) {
  constexpr std::string_view kWanted = "names such as {messages: dialogue, role: speaker}";
  value.theirs.clear();
  for (const auto& [key, name] : members_of(tree, kWanted, place)) {
    if (name.as_string() == nullptr) wrong_value(name, "the name of a key", place);
    value.theirs[key] = *name.as_string();
  }
}

void read_value(const Tree& tree, RoleNames& value, const SourceLocation& place) {
  constexpr std::string_view kWanted = "names such as {user: [client], assistant: [bot]}";
  value.theirs.clear();
  for (const auto& [role, names] : members_of(tree, kWanted, place)) {
    std::vector<std::string>& theirs = value.theirs[role];
    if (names.as_string() != nullptr)
      theirs = {*names.as_string()};
    else
      tessera::read_value(names, theirs, place);
  }
}

void read_value(const Tree& tree, TemplateValues& value, const SourceLocation& place) {
  members_of(tree, "variables such as {enable_thinking: false}", place);
  value.values = tree;
}

Tree write_value(const KeyNames& x) {
  Tree t = Tree::object();
  for (const auto& [key, name] : x.theirs) t.set(key, Tree(name));
  return t;
}

Tree write_value(const RoleNames& x) {
  Tree t = Tree::object();
  for (const auto& [role, names] : x.theirs) t.set(role, tessera::write_value(names));
  return t;
}

Tree write_value(const TemplateValues& x) { return x.values; }

void check(const ChatSection& chat, const RunConfig& run, KeyErrors& errors) {
  const auto is_in = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [key, name] : chat.keys.theirs)
    if (!is_in(kKeys, key))
      errors.add("data.keys", "has the key '{}', expected one of {}.", key, listed(kKeys));
  for (const auto& [role, names] : chat.roles.theirs)
    if (!is_in(kRoles, role))
      errors.add("data.roles", "has the role '{}', expected one of {}.", role, listed(kRoles));
  if (!chat.template_date.empty() && !date_of(chat.template_date))
    errors.add("data.template_date", "= '{}', expected a date such as 2026-01-31.",
               chat.template_date);
  const bool instructions = !run.data.instructions.empty();
  if (!chat.chat_template.empty() && !run.data.form.empty())
    errors.add("data.chat_template", "and data.template are both given, expected one of them.");
  else if (!chat.chat_template.empty() && !instructions)
    errors.add("data.chat_template", "is given, but no data.instructions.");
}

std::optional<std::tm> date_of(const std::string& text) {
  constexpr size_t kBytes = 10;  // 2026-01-31
  if (text.size() != kBytes || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto number = [&](size_t from, size_t count) {
    int n = -1;
    const char* end = text.data() + from + count;
    return std::from_chars(text.data() + from, end, n).ptr == end ? n : -1;
  };
  std::tm date{};
  date.tm_year = number(0, 4) - 1900;
  date.tm_mon = number(5, 2) - 1;
  date.tm_mday = number(8, 2);
  date.tm_hour = 12;
  if (date.tm_year < 0) return std::nullopt;
  // timegm() computes the day of the week, and changes the fields of a date that does not exist.
  std::tm same = date;
  if (timegm(&same) == -1 || same.tm_mon != date.tm_mon || same.tm_mday != date.tm_mday)
    return std::nullopt;
  return same;
}

data::ChatNames chat_names(const ChatSection& chat) {
  data::ChatNames names;
  names.keys = chat.keys.theirs;
  for (const auto& [role, theirs] : chat.roles.theirs)
    for (const std::string& name : theirs) names.roles[name] = role;
  return names;
}

}  // namespace tessera::config
