// The settings that a chat template needs in addition to its text: variables, and the tokens that
// end a turn.
#pragma once

#include <string>
#include <vector>

#include "data/chat_template.h"

namespace tessera::data {

// Returns the settings of a template, without a date. Its variables are bos_token and eos_token of
// the tokenizer, which `variables` overrides and extends. A turn ends with known_turn_ends(),
// eos_token or one of the ids `stops`.
ChatSettings chat_settings(std::string text, std::string source, const Tree& variables,
                           const std::vector<int32_t>& stops, const Tokenizer& tokenizer);

// Returns the names of tokens that end an answer: the one that the template writes after the answer
// of a short conversation, or all of form.ends() if it writes none of them or rejects that
// conversation.
std::vector<std::string> answer_ends(const ChatTemplate& form);

}  // namespace tessera::data
