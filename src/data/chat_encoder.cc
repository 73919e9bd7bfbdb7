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

ChatEncoder::ChatEncoder(ChatSpec spec, const Tokenizer& tokenizer)
    : spec_(std::move(spec)), tokenizer_(tokenizer), reader_(spec_.names) {
  const std::vector<std::string> names =
      spec_.form ? spec_.form->ends() : std::vector<std::string>();
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    if (std::find(names.begin(), names.end(), tokenizer.token_bytes(id)) != names.end())
      ends_.emplace(id, 0);
}

ChatForm ChatEncoder::form_of(const JsonExample& example, const std::string& place) {
  const ChatForm form = reader_.form_of(example.tree, place);
  const auto [at, is_first] = forms_.try_emplace(example.source, FileForm{form, example.line});
  const FileForm& file = at->second;
  if (!is_first && file.form != form)
    throw Error(
        "{}: this example is of the form {}, but line {} of the file is {}. Divide the file", place,
        name_of_entry(form), file.line, name_of_entry(file.form));
  return form;
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
  const int32_t end = *tokenizer_.end_of_text();
  if (ids.empty() || ids.back() != end) push(end, true);
}

// Counts the last token of each learned range that ends a turn.
void ChatEncoder::note_ends(const std::vector<int32_t>& ids, const std::vector<char>& learned,
                            size_t from) {
  for (size_t i = from; i < ids.size(); ++i) {
    if (learned[i] == 0) continue;
    int64_t* last = nullptr;
    for (; i < ids.size() && learned[i] != 0; ++i)
      if (const auto end = ends_.find(ids[i]); end != ends_.end()) last = &end->second;
    if (last != nullptr) ++*last;
  }
}

void ChatEncoder::add(const JsonExample& example, const std::string& place,
                      std::vector<int32_t>& ids, std::vector<char>& learned) {
  const ChatForm form = form_of(example, place);
  const ChatExample read = reader_.read(example.tree, form, place);
  if (read.is_plain) return add_plain(read, form, ids, learned);
  if (!spec_.form)
    throw Error(
        "{}: a conversation needs a chat template, and the model has none. Set data.chat_template "
        "to a file, or with objective.kind = sft data.template to a text such as 'Question: "
        "{{prompt}}\\nAnswer: "
        "{{response}}'",
        place);
  const size_t from = ids.size();
  EncodeCache cache(int64_t{1} << 16);
  try {
    encode_chat(tokenizer_, spec_.form->apply(read.chat, spec_.learned), ids, learned, cache);
  } catch (const Error& e) {
    throw Error("{}: {}", place, e.what());
  }
  note_ends(ids, learned, from);
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
