// Turns the messages of a chat into the tokens that a model reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"
#include "eval/text_rules.h"

namespace tessera::serve {

struct ChatMessage {
  std::string role, content;  // role: system, user or assistant
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // Returns the ids of the messages, up to where the assistant's next message begins. Throws Error
  // if the template does not support the messages.
  virtual std::vector<int32_t> prompt_ids(const std::vector<ChatMessage>& messages,
                                          const eval::SpecialTokenRules& rules,
                                          const data::Tokenizer& tokenizer) const = 0;
  // Texts that end the assistant's message, in addition to the stop ids of the checkpoint.
  virtual std::vector<std::string> stops() const = 0;
  // Returns the name of the template for the log: "ChatML".
  virtual std::string description() const = 0;
};

// Returns the template in `file`, in Jinja. If that is empty, returns the template of a checkpoint:
// the text of data.template if the run was tuned on instructions, the chat template of the run or
// of the Hugging Face folder, ChatML if the tokenizer has its tokens, otherwise plain lines "User:
// …" and "Assistant: …", which models that were only pre-trained continue. Throws Error with the
// place in the template if it is invalid or not supported.
std::unique_ptr<ChatTemplate> chat_template_of(const checkpoint::CheckpointReader& checkpoint,
                                               const data::Tokenizer& tokenizer,
                                               const std::string& file = "");

// Appends the template's stops: special tokens to `ids`, others to `texts`.
void add_stops(const ChatTemplate& chat, const data::Tokenizer& tokenizer,
               std::vector<int32_t>& ids, std::vector<std::string>& texts);

}  // namespace tessera::serve
