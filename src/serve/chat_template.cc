// Built-in chat templates: that of a run's instructions, ChatML, and plain lines.
#include "serve/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "data/instruction_template.h"

namespace tessera::serve {
namespace {

constexpr const char* kTurnEnd = "<|im_end|>";

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
  const std::string form = instruction_form(checkpoint.header().config);
  if (!form.empty()) {
    auto made = std::make_unique<Instructions>(form);
    if (data::InstructionTemplate(form).names().size() == 1) return made;
  }
  const std::vector<int32_t> end = tokenizer.encode(kTurnEnd);
  if (end.size() == 1 && tokenizer.is_special(end[0])) return std::make_unique<ChatMl>();
  return std::make_unique<PlainLines>();
}

}  // namespace tessera::serve
