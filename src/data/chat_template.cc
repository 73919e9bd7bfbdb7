// Locates the answers of a conversation in the text of its chat template, by comparing renderings:
// of the messages before an answer, and of messages with marks. See the header for the rules.
//
// A template is a program, so the bytes of an answer cannot be found by searching for its text:
// templates trim, escape and reorder. With {% generation %} blocks the interpreter reports them.
// Otherwise the text is compared with variants of itself:
//
// The begin of answer i is the length of rendered(messages before i, with the prompt for an
// answer), if the whole text starts with that. If it does not (for example, a template that removes
// earlier reasoning), what follows a mark at the end of the message before is compared instead, up
// to the last special token that both have in common.
//
// The end is the first end of a turn after a mark that is put at the end of the content. A mark is
// one private-use character, so it survives trimming, and with_marks() puts it before trailing
// blanks. If the marked text without its marks differs from the text, the template depends on the
// content, and the marks are not used. If the first message is an answer and the template rejects
// an empty list, the answer begins at a mark in front of its content.
//
// An answer that cannot be found for certain is an error and never a guess: a mask that is off by
// one token trains a model that does not stop. An answer costs a few renderings, which is little
// next to a training step on it.
#include "data/chat_template.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "jinja/python_text.h"

namespace tessera::data {
namespace {

constexpr std::array kTurnEnds{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>",
                               "<|end|>",    "<|return|>", "<|call|>",   "<|end_of_turn|>",
                               "<|eot|>",    "<turn|>"};

// Mark i is a character of the private-use plane 15.
constexpr size_t kMarkBytes = 4, kMostMarks = 0xfffd;
std::string mark(size_t i) {
  const auto low = static_cast<uint32_t>(i);
  return {'\xf3', static_cast<char>(0xb0 | low >> 12), static_cast<char>(0x80 | (low >> 6 & 0x3f)),
          static_cast<char>(0x80 | (low & 0x3f))};
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first -
      a.begin());
}

bool is_assistant(const Tree& message) {
  const Tree* role = message.find("role");
  return role != nullptr && role->as_string() != nullptr && *role->as_string() == "assistant";
}

// Returns the messages with mark i at the end of the text of message i, in front of trailing
// blanks.
Tree::List with_marks(Tree::List messages) {
  for (size_t i = 0; i < std::min(messages.size(), kMostMarks); ++i) {
    const Tree* content = messages[i].find("content");
    if (content == nullptr || content->as_string() == nullptr) continue;
    std::string text = *content->as_string();
    const size_t end = jinja::stripped(text, jinja::Side::kRight).size();
    if (end == 0) continue;
    text.insert(end, mark(i));
    messages[i].set("content", Tree(std::move(text)));
  }
  return messages;
}

// Returns the end of the last of these texts in s[from, to), or npos.
size_t last_end(std::string_view s, const std::vector<std::string>& texts, size_t from, size_t to) {
  size_t best = s.npos;
  const std::string_view part = s.substr(0, to);
  for (const std::string& t : texts) {
    const size_t at = part.rfind(t);
    if (at == part.npos || at < from) continue;
    if (best == s.npos || at + t.size() > best) best = at + t.size();
  }
  return best;
}

// Returns the end of the first of these texts at or after `from`, or npos. Of two that begin at the
// same byte, the longer one counts.
size_t first_end(std::string_view s, const std::vector<std::string>& texts, size_t from) {
  size_t begin = s.npos, end = s.npos;
  for (const std::string& t : texts) {
    const size_t at = s.find(t, from);
    if (at == s.npos || at > begin || (at == begin && at + t.size() < end)) continue;
    begin = at;
    end = at + t.size();
  }
  return end;
}

}  // namespace

// The text of marked messages without the marks, and where they were.
struct ChatTemplate::Marked {
  std::string text;
  std::vector<size_t> at;  // where mark i was; npos: it is missing, or there are several
  Marked(std::string_view marked, size_t messages) : at(messages, marked.npos) {
    std::vector<int> count(messages, 0);
    for (size_t i = 0; i < marked.size();) {
      const bool starts = marked.substr(i, 1) == "\xf3" && i + kMarkBytes <= marked.size();
      size_t which = messages;
      if (starts)
        for (size_t m = 0; m < messages && which == messages; ++m)
          if (marked.substr(i, kMarkBytes) == mark(m)) which = m;
      if (which == messages) {
        text += marked[i++];
        continue;
      }
      at[which] = ++count[which] == 1 ? text.size() : marked.npos;
      i += kMarkBytes;
    }
  }
};

// Finds the answers of one conversation.
class ChatTemplate::Finder {
 public:
  Finder(const ChatTemplate& form, const Conversation& chat, const std::string& full)
      : form_(form), chat_(chat), messages_(*chat.messages.as_list()), full_(full) {}

  ByteSpan find(size_t i) {
    const size_t begin = begin_of(i);
    if (begin == npos) fail(i, "begins");
    return {begin, end_of(i, begin)};
  }

 private:
  static constexpr size_t npos = std::string::npos;

  [[noreturn]] void fail(size_t i, const char* what) const {
    throw Error(
        "{}: cannot decide where the answer messages[{}] {} in the text of the template. Use a "
        "version of the template with {{% generation %}} blocks around the answers",
        form_.source(), i, what);
  }

  // Throws Error for an answer that no token ends. `after`: the text that should have had one.
  [[noreturn]] void fail_without_end(size_t i, std::string_view after) const {
    const std::pair<std::string, size_t>* found = nullptr;
    size_t first = npos;
    for (const auto& end : form_.foreign_ends_)
      if (const size_t at = after.find(end.first); at < first) {
        first = at;
        found = &end;
      }
    constexpr const char* kAdvice = "end the answers of the template with {{ eos_token }}";
    if (found == nullptr)
      throw Error(
          "{}: the template writes no token after the answer messages[{}] that ends a turn, "
          "expected one of {}. A model that is trained on it would not stop: {}",
          form_.source(), i, fmt::join(form_.settings_.ends, ", "), kAdvice);
    const auto& [name, tokens] = *found;
    throw Error(
        "{}: the template ends the answer messages[{}] with {}, which is {} of this tokenizer, "
        "expected one special token. Use a tokenizer that has {}, or {}",
        form_.source(), i, name,
        tokens == 1 ? "an ordinary token" : fmt::format("{} tokens", tokens), name, kAdvice);
  }

  // Renders the first `count` messages; nothing if the template rejects them.
  std::optional<std::string> head(size_t count, bool prompt, bool marks) const {
    const auto end = messages_.begin() + static_cast<std::ptrdiff_t>(count);
    Tree::List some(messages_.begin(), end);
    return rendering(marks ? with_marks(std::move(some)) : some, prompt);
  }

  // Renders messages; nothing if the template rejects them.
  std::optional<std::string> rendering(const Tree::List& messages, bool prompt) const {
    try {
      return form_.render(messages, chat_.tools, prompt);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const Marked& marked() {
    if (!marked_) {
      const auto text = head(messages_.size(), false, true);
      marked_.emplace(text ? *text : std::string(), messages_.size());
      // If the marks change the rendered text, their positions are meaningless.
      if (marked_->text != full_) marked_->at.assign(messages_.size(), npos);
    }
    return *marked_;
  }

  // Finds the begin of an answer that is the first message, for a template that rejects an empty
  // conversation: after the first occurrence of the prompt that follows a message of the user. The
  // prompt must have a special token, because other texts may repeat a prompt without one.
  size_t begin_of_first() {
    Tree user;
    user.set("role", Tree(std::string("user")));
    user.set("content", Tree(std::string("question")));
    std::string prompt;
    try {
      const std::string before = form_.render({user}, chat_.tools, false);
      const std::string text = form_.render({user}, chat_.tools, true);
      if (text.starts_with(before)) prompt = text.substr(before.size());
    } catch (const Error&) {
      // The template needs other messages than this, so the prompt is unknown.
    }
    const size_t at = prompt.empty() ? npos : full_.find(prompt);
    const bool is_certain = at != npos && marked().at[0] != npos &&
                            at + prompt.size() <= marked().at[0] &&
                            last_end(prompt, form_.specials_, 0, prompt.size()) != npos;
    if (is_certain) return at + prompt.size();
    throw Error(
        "{}: the conversation begins with the assistant, but the template requires a message "
        "before its answer. Remove the first message, or mark it with \"train\": false",
        form_.source());
  }

  size_t begin_of(size_t i) {
    const auto prompt = head(i, true, false);
    if (!prompt && i == 0) return begin_of_first();
    if (prompt && full_.starts_with(*prompt)) return prompt->size();
    if (prompt) {
      const auto before = head(i, false, false);
      if (before && full_.starts_with(*before)) {
        const size_t common = common_prefix(*prompt, full_);
        const size_t end = last_end(full_, form_.specials_, before->size(), common);
        if (end != npos) return end;
      }
    }
    return i == 0 ? begin_of_first() : begin_after_mark(i);
  }

  // Returns where the content of the first message begins, by a mark in front of it. A template
  // that reads a property of messages[0] rejects an empty list, so there is no prompt to compare
  // with.
  size_t begin_of_first() const {
    const Tree* const content = messages_[0].find("content");
    if (content == nullptr || content->as_string() == nullptr) return npos;
    const std::string& text = *content->as_string();
    const size_t blanks = text.size() - jinja::stripped(text, jinja::Side::kLeft).size();
    // A template may trim the content: then the mark has to follow the blanks.
    for (const size_t at : {size_t{0}, blanks}) {
      std::string with_mark = text;
      Tree::List messages = messages_;
      messages[0].set("content", Tree(with_mark.insert(at, mark(0))));
      const auto rendered = rendering(messages, false);
      const Marked marked(rendered ? *rendered : std::string(), messages.size());
      if (marked.text == full_) return marked.at[0];
    }
    return npos;
  }

  // Compares what follows the mark of the message before with the prompt that follows it there.
  size_t begin_after_mark(size_t i) {
    if (i == 0 || marked().at[i - 1] == npos) return npos;
    const auto text = head(i, true, true);
    if (!text) return npos;
    const Marked here(*text, i);
    if (here.at[i - 1] == npos) return npos;
    const std::string_view prompt = std::string_view(here.text).substr(here.at[i - 1]);
    const size_t at = marked().at[i - 1];
    const std::string_view rest = std::string_view(full_).substr(at);
    if (!prompt.empty() && rest.starts_with(prompt)) return at + prompt.size();
    return last_end(full_, form_.specials_, at, at + common_prefix(prompt, rest));
  }

  size_t end_of(size_t i, size_t begin) {
    const auto& ends = form_.settings_.ends;
    const size_t at = marked().at[i];
    const bool has_mark = at != npos && at >= begin;
    size_t end = npos, from = at, to = full_.size();
    if (has_mark) {
      end = first_end(full_, ends, at);
    } else {
      const auto turn = head(i + 1, false, false);
      if (!turn || !full_.starts_with(*turn) || turn->size() < begin) fail(i, "ends");
      from = begin;
      to = turn->size();
      end = last_end(full_, ends, begin, to);
    }
    if (end == npos) fail_without_end(i, std::string_view(full_).substr(from, to - from));
    return end;
  }

  const ChatTemplate& form_;
  const Conversation& chat_;
  const Tree::List& messages_;
  const std::string& full_;
  std::optional<Marked> marked_;
};

ChatTemplate::ChatTemplate(ChatSettings settings, const Tokenizer& tokenizer)
    : settings_(std::move(settings)), template_(settings_.text, settings_.source) {
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    if (tokenizer.is_special(id) && tokenizer.token_bytes(id).size() > 1)
      specials_.emplace_back(tokenizer.token_bytes(id));
  for (const char* name : kTurnEnds)
    if (std::find(settings_.ends.begin(), settings_.ends.end(), name) == settings_.ends.end())
      foreign_ends_.emplace_back(name, tokenizer.encode(name).size());
}

jinja::RenderedText ChatTemplate::rendered(const Tree::List& messages, const Tree& tools,
                                           bool prompt) const {
  // The variables of transformers' apply_chat_template.
  Tree variables =
      settings_.variables.as_members() != nullptr ? settings_.variables : Tree::object();
  variables.set("messages", Tree(with_reasoning_names(messages)));
  variables.set("tools", tools);
  variables.set("documents", Tree());
  variables.set("add_generation_prompt", Tree(prompt));
  return template_.render(variables, settings_.now);
}

// Adds what to do to the error of a conversation that the template rejects.
jinja::RenderedText ChatTemplate::rendered_example(const Tree::List& messages,
                                                   const Tree& tools) const {
  try {
    return rendered(messages, tools, false);
  } catch (const Error& e) {
    throw Error("{} {}", sentence(e.what()),
                !messages.empty() && is_assistant(messages[0])
                    ? "The conversation begins with the assistant. Remove that message, or the "
                      "example"
                    : "Correct or remove the example, or use another template");
  }
}

std::string ChatTemplate::render(const Tree::List& messages, const Tree& tools, bool prompt) const {
  return rendered(messages, tools, prompt).text;
}

// Returns the texts of {% generation %} blocks, without those of messages that have no loss.
std::vector<ByteSpan> ChatTemplate::generated(const Conversation& chat,
                                              const jinja::RenderedText& text) const {
  std::vector<char> flags;
  const Tree::List& messages = *chat.messages.as_list();
  for (size_t i = 0; i < messages.size(); ++i)
    if (is_assistant(messages[i])) flags.push_back(chat.learned[i]);
  std::vector<ByteSpan> spans = text.generated;
  if (std::find(flags.begin(), flags.end(), 0) != flags.end()) {
    if (flags.size() != spans.size())
      throw Error(
          "{}: the template has {} generated texts for {} answers, so the answers that are not "
          "trained cannot be found",
          source(), spans.size(), flags.size());
    for (size_t i = 0; i < spans.size(); ++i)
      if (flags[i] == 0) spans[i].second = spans[i].first;
  }
  std::erase_if(spans, [](const ByteSpan& s) { return s.first == s.second; });
  return spans;
}

ChatText ChatTemplate::apply(const Conversation& chat, Learned learned) const {
  const Tree::List& messages = *chat.messages.as_list();
  CHECK(chat.learned.size() == messages.size(), "{} flags for {} messages", chat.learned.size(),
        messages.size());
  jinja::RenderedText text = rendered_example(messages, chat.tools);
  ChatText out;
  if (learned == Learned::kEverything) {
    out.learned = {{0, text.text.size()}};
  } else if (template_.has_generation()) {
    out.learned = generated(chat, text);
  } else {
    Finder finder(*this, chat, text.text);
    for (size_t i = 0; i < messages.size(); ++i)
      if (is_assistant(messages[i]) && chat.learned[i] != 0) out.learned.push_back(finder.find(i));
    for (size_t i = 1; i < out.learned.size(); ++i)
      if (out.learned[i].first < out.learned[i - 1].second)
        throw Error("{}: the answers overlap in the text of the template", source());
  }
  if (learned == Learned::kLastAnswer && !out.learned.empty())
    out.learned.erase(out.learned.begin(), out.learned.end() - 1);
  out.text = std::move(text.text);
  return out;
}

std::vector<std::string> known_turn_ends(const Tokenizer& tokenizer) {
  std::vector<std::string> ends;
  const auto end = tokenizer.end_of_text();
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_special(id) && id != end) continue;
    const std::string_view name = tokenizer.token_bytes(id);
    if (id == end || std::find(kTurnEnds.begin(), kTurnEnds.end(), name) != kTurnEnds.end())
      ends.emplace_back(name);
  }
  std::erase(ends, std::string());
  return ends;
}

void encode_chat(const Tokenizer& tokenizer, const ChatText& chat, std::vector<int32_t>& ids,
                 std::vector<char>& learned, EncodeCache& cache) {
  const size_t first = ids.size();
  tokenizer.encode(chat.text, ids, cache);
  const std::string_view text = chat.text;
  size_t at = 0, span = 0;
  for (size_t i = first; i < ids.size(); ++i) {
    std::string_view bytes = tokenizer.token_bytes(ids[i]);
    std::string_view rest = text.substr(at);
    // Tokenizers such as LLaMA 2's put a blank in front of a text that is not in it.
    if (!rest.starts_with(bytes) && bytes.starts_with(' ') && rest.starts_with(bytes.substr(1)))
      bytes.remove_prefix(1);
    if (!rest.starts_with(bytes))
      throw Error(
          "the tokenizer changes the text of the chat: token {} is '{}', but the text continues "
          "with '{}'. With objective.kind = sft, data.template encodes prompts and answers "
          "separately",
          ids[i], bytes, rest.substr(0, 20));
    const size_t end = at + bytes.size();
    while (span < chat.learned.size() && chat.learned[span].second <= at) ++span;
    learned.push_back(span < chat.learned.size() && chat.learned[span].first < end && end > at);
    at = end;
  }
}

}  // namespace tessera::data
