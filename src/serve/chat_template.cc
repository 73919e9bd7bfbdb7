// Chat templates: that of a run's instructions, one in Jinja, ChatML, and plain lines. A model
// answers well only in the form that it was trained on, so the choice goes from what is known to
// what is likely: a file that the user names, the template of the instructions that this run was
// tuned on, the template in the checkpoint, ChatML if the tokenizer has its tokens, and plain lines
// for a model that was only pre-trained.
//
// A template also has the texts that end an answer. One that is a single special token becomes a
// stop id, which costs nothing; others are searched for in the text (eval/text_stream.h).
#include "serve/chat_template.h"

#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_text.h"
#include "data/chat_settings.h"
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

class JinjaTemplate final : public ChatTemplate {
 public:
  JinjaTemplate(data::ChatSettings settings, const data::Tokenizer& tokenizer)
      : form_(std::move(settings), tokenizer), stops_(data::answer_ends(form_)) {}

  std::string render(const std::vector<ChatMessage>& messages, bool prompt) const override {
    Tree::List list;
    for (const ChatMessage& m : messages) {
      Tree& one = list.emplace_back();
      one.set("role", Tree(m.role));
      one.set("content", Tree(m.content));
    }
    return form_.render(list, Tree(), prompt);
  }
  std::vector<std::string> stops() const override { return stops_; }
  bool has_special_tokens() const override { return true; }
  std::string description() const override { return form_.source(); }

 private:
  data::ChatTemplate form_;
  std::vector<std::string> stops_;
};

// Returns the value of a key of the section data in the configuration of a run; null: none.
const Tree* data_key(const Tree& config, std::string_view key) {
  const Tree* data = config.as_members() != nullptr ? config.find("data") : nullptr;
  return data != nullptr && data->as_members() != nullptr ? data->find(key) : nullptr;
}

std::unique_ptr<ChatTemplate> jinja_template(const checkpoint::CheckpointReader& checkpoint,
                                             const data::Tokenizer& tokenizer, std::string text,
                                             std::string source) {
  const checkpoint::CheckpointHeader& header = checkpoint.header();
  Tree variables = checkpoint::special_token_names(header);
  if (const Tree* values = data_key(header.config, "template_values");
      values != nullptr && values->as_members() != nullptr)
    for (const auto& [name, value] : *values->as_members()) variables.set(name, value);
  try {
    data::ChatSettings settings =
        data::chat_settings(std::move(text), std::move(source), variables,
                            checkpoint::hf_text_rules(header).stops, tokenizer);
    // transformers gives templates the local time.
    const std::time_t now = std::time(nullptr);
    std::tm local = {};
    if (::localtime_r(&now, &local) != nullptr) settings.now = local;
    return std::make_unique<JinjaTemplate>(std::move(settings), tokenizer);
  } catch (const Error& e) {
    throw Error("{}\nUse another template with --chat-template FILE", e.what());
  }
}

// Returns the text of data.template in the configuration of a run that was tuned on instructions;
// otherwise "".
std::string instruction_form(const Tree& config) {
  const Tree *files = data_key(config, "instructions"), *form = data_key(config, "template");
  const bool tuned = files != nullptr && files->as_list() != nullptr && !files->as_list()->empty();
  return tuned && form != nullptr && form->as_string() != nullptr ? *form->as_string() : "";
}

}  // namespace

std::unique_ptr<ChatTemplate> chat_template_of(const checkpoint::CheckpointReader& checkpoint,
                                               const data::Tokenizer& tokenizer,
                                               const std::string& file) {
  if (!file.empty()) return jinja_template(checkpoint, tokenizer, read_file(file), file);
  const std::string form = instruction_form(checkpoint.header().config);
  if (!form.empty()) {
    auto made = std::make_unique<Instructions>(form);
    if (data::InstructionTemplate(form).names().size() == 1) return made;
  }
  if (std::string text = checkpoint::chat_template_of(checkpoint.header()); !text.empty())
    return jinja_template(checkpoint, tokenizer, std::move(text), "that of the checkpoint");
  const std::vector<int32_t> end = tokenizer.encode(kTurnEnd);
  if (end.size() == 1 && tokenizer.is_special(end[0])) return std::make_unique<ChatMl>();
  return std::make_unique<PlainLines>();
}

std::vector<int32_t> prompt_ids(const ChatTemplate& chat, const std::vector<ChatMessage>& messages,
                                const eval::SpecialTokenRules& rules,
                                const data::Tokenizer& tokenizer) {
  const std::string text = chat.render(messages, true);
  return chat.has_special_tokens() ? tokenizer.encode(text)
                                   : eval::encode_text(rules, tokenizer, text);
}

void add_stops(const ChatTemplate& chat, const data::Tokenizer& tokenizer,
               std::vector<int32_t>& ids, std::vector<std::string>& texts) {
  for (const std::string& stop : chat.stops()) {
    const std::vector<int32_t> stop_ids = tokenizer.encode(stop);
    if (stop_ids.size() == 1 && tokenizer.is_special(stop_ids[0]))
      ids.push_back(stop_ids[0]);
    else
      texts.push_back(stop);
  }
}

}  // namespace tessera::serve
