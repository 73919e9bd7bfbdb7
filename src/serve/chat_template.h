// Turns the messages of a chat into the text that a model reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"

namespace tessera::serve {

struct ChatMessage {
  std::string role, content;  // role: system, user or assistant
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // Returns the text of the messages; with `add_generation_prompt`, up to where the assistant's
  // next message begins. Throws Error if the template does not support the messages.
  virtual std::string render(const std::vector<ChatMessage>& messages,
                             bool add_generation_prompt) const = 0;
  // Texts that end the assistant's message, in addition to the stop ids of the checkpoint.
  virtual std::vector<std::string> stops() const = 0;
  // Returns the name of the template for the log: "ChatML".
  virtual std::string description() const = 0;
};

// Returns the template of a checkpoint: its own, in Jinja; otherwise the text of data.template if
// the run was tuned on instructions, ChatML if the tokenizer has its tokens, or else plain lines
// "User: …" and "Assistant: …", which models that were only pre-trained continue. Throws Error with
// line and column if its own template is not supported.
std::unique_ptr<ChatTemplate> chat_template_of(const checkpoint::CheckpointReader& checkpoint,
                                               const data::Tokenizer& tokenizer);

// Adds the template's stops: those that are one special token to `ids`, the others to `texts`.
void add_stops(const ChatTemplate& chat, const data::Tokenizer& tokenizer,
               std::vector<int32_t>& ids, std::vector<std::string>& texts);

}  // namespace tessera::serve
