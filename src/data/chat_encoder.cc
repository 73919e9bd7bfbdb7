// Encodes conversations and plain texts, and records the tokens that end their turns.
//
// The tokens that end turns are counted while the data is read. A checkpoint records those that
// occurred, so that generation stops at the same tokens as training did, without a list of them in
// the run file.
#include "data/chat_encoder.h"

#include <algorithm>
#include <set>

#include "base/config.h"
#include "base/error.h"

namespace tessera::data {
namespace {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == text.npos; }

}  // namespace

ChatEncoder::ChatEncoder(ChatSpec spec, const Tokenizer& tokenizer)
    : spec_(std::move(spec)), tokenizer_(tokenizer), reader_(spec_.names) {
  const std::vector<std::string> names =
      spec_.form ? spec_.form->ends() : std::vector<std::string>();
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    if (std::find(names.begin(), names.end(), tokenizer.token_bytes(id)) != names.end())
      ends_.emplace(id, 0);
}

// Throws Error if the file of the example has another form.
void ChatEncoder::require_form(const JsonExample& example, ChatForm form, bool plain,
                               const std::string& place) {
  const auto [at, is_first] =
      forms_.try_emplace(example.source, FileForm{form, plain, example.line});
  const FileForm& file = at->second;
  if (is_first) return;
  if (file.form != form)
    throw Error(
        "{}: this example is of the form {}, but line {} of the file is {}. Divide the file", place,
        name_of_entry(form), file.line, name_of_entry(file.form));
  if (file.plain != plain)
    throw Error(
        "{}: this example is {}, but line {} of the file is {}. Give all lines of the file texts "
        "without 'system', or all lines messages or a 'system' (an empty text if there is none)",
        place, plain ? "a plain text" : "a conversation", file.line,
        file.plain ? "a plain text" : "a conversation");
}

void ChatEncoder::add_plain(const ChatExample& example, ChatForm form, std::vector<int32_t>& ids,
                            std::vector<char>& learned) {
  EncodeCache cache(int64_t{1} << 16);
  const bool all = spec_.learned == Learned::kEverything || form == ChatForm::kText;
  const auto push = [&](int32_t id, bool has_loss) {
    ids.push_back(id);
    learned.push_back(has_loss ? 1 : 0);
  };
  if (tokenizer_.text_begin()) push(*tokenizer_.text_begin(), false);
  tokenizer_.encode(example.prompt, ids, cache);
  learned.resize(ids.size(), all ? 1 : 0);
  tokenizer_.encode(example.completion, ids, cache);
  learned.resize(ids.size(), 1);
  ++notes_.answers;
  notes_.empty_answers += is_blank(example.completion) ? 1 : 0;
  const int32_t end = *tokenizer_.end_of_text();
  if (ids.empty() || ids.back() != end) push(end, true);
}

// Counts the learned ranges, those without a text, and the last token of each that ends a turn.
void ChatEncoder::note_answers(const std::vector<int32_t>& ids, const std::vector<char>& learned,
                               size_t from) {
  for (size_t i = from; i < ids.size(); ++i) {
    if (learned[i] == 0) continue;
    int64_t* last = nullptr;
    bool empty = true;
    for (; i < ids.size() && learned[i] != 0; ++i) {
      if (const auto end = ends_.find(ids[i]); end != ends_.end())
        last = &end->second;
      else
        empty = empty && is_blank(tokenizer_.token_bytes(ids[i]));
    }
    ++notes_.answers;
    ++notes_.chat_answers;
    notes_.empty_answers += empty ? 1 : 0;
    if (last == nullptr) continue;
    ++*last;
    ++notes_.ended_answers;
  }
}

// Compares the text of a conversation with its text without tools and without their calls. A
// template that does not read them gives the same text.
void ChatEncoder::note_tools(const Conversation& chat, const std::string& text) {
  const auto is_text_of = [&](const Tree::List& messages, const Tree& tools) {
    try {
      return spec_.form->render(messages, tools, false) == text;
    } catch (const Error&) {
      return false;  // the template requires them
    }
  };
  Tree::List messages = *chat.messages.as_list();
  if (!chat.tools.is_null()) {
    ++notes_.with_tools;
    notes_.unwritten_tools += is_text_of(messages, Tree()) ? 1 : 0;
  }
  bool calls = false;
  for (Tree& m : messages) {
    if (m.find("tool_calls") == nullptr) continue;
    auto& members = std::get<Tree::Members>(m.value);
    std::erase_if(members, [](const auto& member) { return member.first == "tool_calls"; });
    calls = true;
  }
  if (!calls) return;
  ++notes_.with_calls;
  notes_.unwritten_calls += is_text_of(messages, chat.tools) ? 1 : 0;
}

void ChatEncoder::add_chat(const Conversation& chat, std::vector<int32_t>& ids,
                           std::vector<char>& learned) {
  const size_t from = ids.size();
  EncodeCache cache(int64_t{1} << 16);
  const ChatText text = spec_.form->apply(chat, spec_.learned);
  encode_chat(tokenizer_, text, ids, learned, cache);
  note_answers(ids, learned, from);
  note_tools(chat, text.text);
}

void ChatEncoder::add(const JsonExample& example, const std::string& place,
                      std::vector<int32_t>& ids, std::vector<char>& learned) {
  const ChatForm form = reader_.form_of(example.tree, place);
  const ChatExample read = reader_.read(example.tree, form, place);
  require_form(example, form, read.is_plain, place);
  std::vector<std::string> unread = reader_.unread(example.tree, form, read.is_plain);
  std::erase_if(unread, [&](const std::string& key) {
    return std::ranges::find(spec_.other_keys, key) != spec_.other_keys.end();
  });
  notes_.add_unread(unread, example.tree, form, read);
  if (read.is_plain) return add_plain(read, form, ids, learned);
  if (!spec_.form)
    throw Error(
        "{}: a conversation needs a chat template, and the model has none. Set data.chat_template "
        "to a file, or with objective.kind = sft data.template to a text such as 'Question: "
        "{{prompt}}\\nAnswer: "
        "{{response}}'",
        place);
  try {
    add_chat(read.chat, ids, learned);
  } catch (const Error& e) {
    throw Error("{}: {}", place, e.what());
  }
}

std::vector<int32_t> ChatEncoder::stops() const {
  const int32_t end = *tokenizer_.end_of_text();
  std::vector<int32_t> ids;
  for (const auto& [id, count] : ends_)
    if (count > 0 && id != end) ids.push_back(id);
  ids.push_back(end);
  return ids;
}

std::string ChatEncoder::forms() const {
  std::set<std::string> names;
  for (const auto& [file, found] : forms_) names.insert(name_of_entry(found.form));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace tessera::data
