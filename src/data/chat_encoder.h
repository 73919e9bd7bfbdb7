// Encodes the lines of chat data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/chat_notes.h"
#include "data/chat_template.h"
#include "data/conversation.h"
#include "data/example_stream.h"

namespace tessera::data {

struct ChatSpec {
  std::shared_ptr<const ChatTemplate> form;  // null: there is none, so lines must be plain texts
  ChatNames names;
  Learned learned = Learned::kAnswers;
  std::vector<std::string> other_keys = {};  // keys of a line that the caller reads itself
};

// Conversations are encoded as their template writes them. Of a plain prompt and completion, the
// completion and an end-of-text token have a loss; of a plain text, all of it. Those begin with the
// tokenizer's begin-of-text token, if it has one.
class ChatEncoder {
 public:
  ChatEncoder(ChatSpec spec, const Tokenizer& tokenizer);

  // Appends the ids of an example and one flag per id: 1 if it has a loss. Throws Error that starts
  // with `place` if the line has no known form or not that of its file, if it is a plain text and
  // its file has conversations or vice versa, if the template rejects it, or if its answers cannot
  // be found.
  void add(const JsonExample& example, const std::string& place, std::vector<int32_t>& ids,
           std::vector<char>& learned);

  // The ids that ended learned turns, in the order of their ids, and the end-of-text token.
  std::vector<int32_t> stops() const;

  // Returns the form of each file that has been read: "messages", or "messages, sharegpt" if files
  // differ.
  std::string forms() const;

  const ChatNotes& notes() const { return notes_; }

 private:
  struct FileForm {
    ChatForm form = ChatForm::kMessages;
    bool plain = false;
    int64_t line = 0;  // that decided
  };
  void require_form(const JsonExample& example, ChatForm form, bool plain,
                    const std::string& place);
  void add_plain(const ChatExample& example, ChatForm form, std::vector<int32_t>& ids,
                 std::vector<char>& learned);
  void add_chat(const Conversation& chat, std::vector<int32_t>& ids, std::vector<char>& learned);
  void note_answers(const std::vector<int32_t>& ids, const std::vector<char>& learned, size_t from);
  void note_tools(const Conversation& chat, const std::string& text);

  ChatSpec spec_;
  const Tokenizer& tokenizer_;
  ConversationReader reader_;
  std::map<int64_t, FileForm> forms_;  // by the number of the file
  std::map<int32_t, int64_t> ends_;    // ids of known turn ends, and how many turns they ended
  ChatNotes notes_;
};

}  // namespace tessera::data
