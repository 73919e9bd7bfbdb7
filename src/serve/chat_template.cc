// Chat templates: the checkpoint's own in Jinja, that of a run's instructions, ChatML, plain lines.
#include "serve/chat_template.h"

#include <ctime>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "data/chat_template.h"
#include "data/instruction_template.h"

namespace tessera::serve {
namespace {

constexpr const char* kTurnEnd = "<|im_end|>";

// The template in the header of a checkpoint.
class Jinja final : public ChatTemplate {
 public:
  Jinja(data::ChatSettings settings, const data::Tokenizer& tokenizer)
      : template_(std::move(settings), tokenizer) {}

  std::string render(const std::vector<ChatMessage>& messages, bool prompt) const override {
    Tree::List list;
    for (const ChatMessage& m : messages) {
      Tree one = Tree::object();
      one.set("role", Tree(m.role));
      one.set("content", Tree(m.content));
      list.push_back(std::move(one));
    }
    return template_.render(list, Tree(), prompt);
  }
  std::vector<std::string> stops() const override { return template_.ends(); }
  std::string description() const override { return "the checkpoint's own (Jinja)"; }

 private:
  data::ChatTemplate template_;
};

class ChatMl final : public ChatTemplate {
 public:
  std::string render(const std::vector<ChatMessage>& messages, bool prompt) const override {
    std::string out;
    for (const ChatMessage& m : messages)
      out += "<|im_start|>" + m.role + "\n" + m.content + kTurnEnd + "\n";
    return prompt ? out + "<|im_start|>assistant\n" : out;
  }
  std::vector<std::string> stops() const override { return {kTurnEnd}; }
  std::string description() const override { return "ChatML"; }
};

class PlainLines final : public ChatTemplate {
 public:
  std::string render(const std::vector<ChatMessage>& messages, bool prompt) const override {
    std::string out;
    for (const ChatMessage& m : messages) {
      if (m.role == "system")
        out += m.content + "\n\n";
      else
        out += (m.role == "user" ? "User: " : "Assistant: ") + m.content + "\n";
    }
    return prompt ? out + "Assistant:" : out;
  }
  std::vector<std::string> stops() const override { return {"\nUser:", "\nAssistant:"}; }
  std::string description() const override { return "plain lines (User: …, Assistant: …)"; }
};

// The template that the run's instructions had: {prompt} and {response} per pair of user and
// assistant, a system message before the first prompt, as data/instructions.h reads them.
class Instructions final : public ChatTemplate {
 public:
  explicit Instructions(const std::string& text) : form_(text) {}

  std::string render(const std::vector<ChatMessage>& messages, bool prompt) const override {
    std::string out, system, user;
    bool asked = false;
    const auto ask = [&] {
      std::string text = system.empty() ? user : system + "\n\n" + user;
      system.clear();
      return form_.before([&](const std::string&) { return text; });
    };
    for (const ChatMessage& m : messages) {
      if (m.role == "system") {
        system += (system.empty() ? "" : "\n\n") + m.content;
      } else if (m.role == "user") {
        user = asked ? user + "\n" + m.content : m.content;
        asked = true;
      } else {
        if (!asked) user.clear();
        out += ask() + m.content + form_.ending() +
               form_.after([](const std::string&) { return std::string(); });
        asked = false;
      }
    }
    if (asked && prompt) out += ask();
    return out;
  }
  std::vector<std::string> stops() const override {
    std::string end = form_.ending();
    while (!end.empty() && (end.back() == '\n' || end.back() == ' ')) end.pop_back();
    return end.empty() ? std::vector<std::string>() : std::vector<std::string>{end};
  }
  std::string description() const override { return "the run's data.template"; }

 private:
  data::InstructionTemplate form_;
};

// Returns the names of special tokens, which templates use as variables.
Tree token_variables(const checkpoint::CheckpointHeader& header, const data::Tokenizer& tokenizer) {
  Tree out = Tree::object();
  const auto set_token = [&](const char* name, std::optional<int32_t> id) {
    if (id) out.set(name, Tree(std::string(tokenizer.token_bytes(*id))));
  };
  set_token("bos_token", tokenizer.text_begin());
  set_token("eos_token", tokenizer.end_of_text());
  const Tree* const kept =
      header.state.as_members() != nullptr ? header.state.find("tokenizer_config") : nullptr;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    const Tree* token = kept != nullptr ? kept->find(name) : nullptr;
    // A token is a text, or an object with its text and properties.
    if (token != nullptr && token->as_members() != nullptr) token = token->find("content");
    if (token != nullptr && token->as_string() != nullptr) out.set(name, *token);
  }
  return out;
}

std::unique_ptr<ChatTemplate> own_template(const checkpoint::CheckpointReader& checkpoint,
                                           const data::Tokenizer& tokenizer) {
  data::ChatSettings settings;
  settings.text = checkpoint::chat_template_of(checkpoint.header());
  if (settings.text.empty()) return nullptr;
  settings.source = checkpoint.folder().string() + " (chat template)";
  settings.variables = token_variables(checkpoint.header(), tokenizer);
  settings.ends = data::known_turn_ends(tokenizer);
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  if (::localtime_r(&now, &local) != nullptr) settings.now = local;
  return std::make_unique<Jinja>(std::move(settings), tokenizer);
}

// Returns the text of data.template in the configuration of a run that was tuned on instructions;
// otherwise "".
std::string instruction_form(const Tree& config) {
  const Tree* data = config.find("data");
  if (data == nullptr) return "";
  const Tree *files = data->find("instructions"), *form = data->find("template");
  const bool tuned = files != nullptr && files->as_list() != nullptr && !files->as_list()->empty();
  return tuned && form != nullptr && form->as_string() != nullptr ? *form->as_string() : "";
}

}  // namespace

std::unique_ptr<ChatTemplate> chat_template_of(const checkpoint::CheckpointReader& checkpoint,
                                               const data::Tokenizer& tokenizer) {
  if (auto own = own_template(checkpoint, tokenizer)) return own;
  const std::string form = instruction_form(checkpoint.header().config);
  if (!form.empty()) {
    auto made = std::make_unique<Instructions>(form);
    if (data::InstructionTemplate(form).names().size() == 1) return made;
  }
  const std::vector<int32_t> end = tokenizer.encode(kTurnEnd);
  if (end.size() == 1 && tokenizer.is_special(end[0])) return std::make_unique<ChatMl>();
  return std::make_unique<PlainLines>();
}

void add_stops(const ChatTemplate& chat, const data::Tokenizer& tokenizer,
               std::vector<int32_t>& ids, std::vector<std::string>& texts) {
  for (const std::string& stop : chat.stops()) {
    const std::vector<int32_t> encoded = tokenizer.encode(stop);
    if (encoded.size() == 1 && tokenizer.is_special(encoded[0]))
      ids.push_back(encoded[0]);
    else
      texts.push_back(stop);
  }
}

}  // namespace tessera::serve
