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

// A template of plain text, around which the special tokens of any text are added.
class TextTemplate : public ChatTemplate {
 public:
  std::vector<int32_t> prompt_ids(const std::vector<ChatMessage>& messages,
                                  const eval::SpecialTokenRules& rules,
                                  const data::Tokenizer& tokenizer) const final {
    return eval::encode_text(rules, tokenizer, render(messages));
  }

 private:
  virtual std::string render(const std::vector<ChatMessage>& messages) const = 0;
};

class ChatMl final : public TextTemplate {
 public:
  std::vector<std::string> stops() const override { return {kTurnEnd}; }
  std::string description() const override { return "ChatML"; }

 private:
  std::string render(const std::vector<ChatMessage>& messages) const override {
    std::string out;
    for (const ChatMessage& m : messages)
      out += "<|im_start|>" + m.role + "\n" + m.content + kTurnEnd + "\n";
    return out + "<|im_start|>assistant\n";
  }
};

class PlainLines final : public TextTemplate {
 public:
  std::vector<std::string> stops() const override { return {"\nUser:", "\nAssistant:"}; }
  std::string description() const override { return "plain lines (User: …, Assistant: …)"; }

 private:
  std::string render(const std::vector<ChatMessage>& messages) const override {
    std::string out;
    for (const ChatMessage& m : messages) {
      if (m.role == "system")
        out += m.content + "\n\n";
      else
        out += (m.role == "user" ? "User: " : "Assistant: ") + m.content + "\n";
    }
    return out + "Assistant:";
  }
};

// The template that the run's instructions had, with {prompt} and {response} per pair of user and
// assistant, and a system message before the first prompt. The ids are those of training
// (data/instructions.h): each part is encoded by itself, and a turn that the template does not end
// with a special token ends with the end-of-text token.
class Instructions final : public ChatTemplate {
 public:
  explicit Instructions(const std::string& text) : form_(text) {}

  std::vector<int32_t> prompt_ids(const std::vector<ChatMessage>& messages,
                                  const eval::SpecialTokenRules& rules,
                                  const data::Tokenizer& tokenizer) const override {
    const data::TurnEnding ending = data::turn_ending(form_, tokenizer);
    std::vector<int32_t> ids;
    std::string system, user;
    bool asked = false;
    const auto add = [&](const std::string& text) {
      const std::vector<int32_t> more = tokenizer.encode(text);
      ids.insert(ids.end(), more.begin(), more.end());
    };
    // Adds the text before the answer, and returns what {prompt} stands for.
    const auto ask = [&] {
      std::string prompt = system.empty() ? user : system + "\n\n" + user;
      system.clear();
      user.clear();
      asked = false;
      add(form_.before([&](const std::string&) { return prompt; }));
      return prompt;
    };
    for (const ChatMessage& m : messages) {
      if (m.role == "system") {
        system += (system.empty() ? "" : "\n\n") + m.content;
      } else if (m.role == "user") {
        user += (asked ? "\n" : "") + m.content;
        asked = true;
      } else {
        const std::string prompt = ask();
        add(m.content + ending.text);
        add(form_.after([&](const std::string&) { return prompt; }));
        if (!ending.token && tokenizer.end_of_text()) ids.push_back(*tokenizer.end_of_text());
      }
    }
    if (!asked)
      throw Error(
          "there is no message of the user to answer: the last message is of the role '{}'. "
          "data.template, with which the model was tuned, needs one of the role 'user' after it.",
          messages.empty() ? "" : messages.back().role);
    ask();
    eval::add_special_tokens(rules, ids);
    return ids;
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
      : settings_(std::move(settings)), stops_(data::answer_ends(form_now(tokenizer))) {}

  // The text has all special tokens, so none are added.
  std::vector<int32_t> prompt_ids(const std::vector<ChatMessage>& messages,
                                  const eval::SpecialTokenRules&,
                                  const data::Tokenizer& tokenizer) const override {
    Tree::List list;
    for (const ChatMessage& m : messages) {
      Tree& one = list.emplace_back();
      one.set("role", Tree(m.role));
      one.set("content", Tree(m.content));
    }
    return tokenizer.encode(form_now(tokenizer).render(list, Tree(), true));
  }
  std::vector<std::string> stops() const override { return stops_; }
  std::string description() const override { return settings_.source; }

 private:
  // Returns the template with the local time, which transformers gives to templates. A server may
  // run for days, so the time is that of the request.
  data::ChatTemplate form_now(const data::Tokenizer& tokenizer) const {
    data::ChatSettings settings = settings_;
    const std::time_t now = std::time(nullptr);
    std::tm local = {};
    if (::localtime_r(&now, &local) != nullptr) settings.now = local;
    return {std::move(settings), tokenizer};
  }

  data::ChatSettings settings_;
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
