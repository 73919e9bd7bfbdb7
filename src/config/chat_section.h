// The keys of the section `data` that describe chat data.
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/key_errors.h"
#include "data/chat_template.h"
#include "data/conversation.h"

namespace tessera::config {

// data.keys: {messages: dialogue, role: speaker}
struct KeyNames {
  std::map<std::string, std::string> theirs;  // our key → that of the file
  bool operator==(const KeyNames&) const = default;
};

// data.roles: {user: [client], assistant: [bot, agent]}
struct RoleNames {
  std::map<std::string, std::vector<std::string>> theirs;  // our role → those of the file
  bool operator==(const RoleNames&) const = default;
};

// data.template_values: {enable_thinking: false}
struct TemplateValues {
  Tree values = Tree::object();
};

void read_value(const Tree& tree, KeyNames& value, const SourceLocation& place);
void read_value(const Tree& tree, RoleNames& value, const SourceLocation& place);
void read_value(const Tree& tree, TemplateValues& value, const SourceLocation& place);
Tree write_value(const KeyNames& x);
Tree write_value(const RoleNames& x);
Tree write_value(const TemplateValues& x);
inline std::string type_name(const KeyNames&) { return "{key: name in the file}"; }
inline std::string type_name(const RoleNames&) { return "{role: [names in the file]}"; }
inline std::string type_name(const TemplateValues&) { return "{variable: value}"; }

struct RunConfig;  // config/run_config.h

struct ChatSection {
  std::string chat_template;
  bool allow_other_template = false;
  KeyNames keys;
  RoleNames roles;
  data::Learned learn = data::Learned::kAnswers;
  TemplateValues template_values;
  std::string template_date;

  static void fields(auto& self, auto&& visit) {
    visit(
        "chat_template", self.chat_template,
        "a file with the chat template in Jinja, for instructions without data.template; default: "
        "that of checkpoint.from or of the folder of data.tokenizer");
    visit("allow_other_template", self.allow_other_template,
          "use data.chat_template even if checkpoint.from has another one, and export it");
    visit("keys", self.keys,
          "names of the keys in chat data, such as {messages: dialogue, role: speaker}");
    visit("roles", self.roles, "names of the roles in chat data, such as {assistant: [bot]}");
    visit("learn", self.learn, "parts of a conversation that have a loss");
    visit("template_values", self.template_values,
          "further variables of the chat template, such as {enable_thinking: false}");
    visit(
        "template_date", self.template_date,
        "the date, such as 2026-01-31, that a chat template writes if it asks for the current one");
  }
};

// Adds errors for roles that chat templates do not have, for a date that is none, and for keys that
// the kind of data does not use.
void check(const ChatSection& chat, const RunConfig& run, KeyErrors& errors);

// Returns the date as a time for templates; nothing if it is empty or not YYYY-MM-DD.
std::optional<std::tm> date_of(const std::string& text);

// Returns the names as the reader of chat data needs them.
data::ChatNames chat_names(const ChatSection& chat);

}  // namespace tessera::config
