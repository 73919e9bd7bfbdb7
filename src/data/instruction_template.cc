// Parses a prompt template with names in braces into parts, each of literal text followed by a
// name. Doubled braces represent one; {response} separates the prompt from the text with a loss.
#include "data/instruction_template.h"

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer.h"

namespace tessera::data {

InstructionTemplate::InstructionTemplate(std::string_view text) {
  const auto refuse = [&](size_t at, const char* why) {
    throw Error(
        "the template '{}': character {}: {}. Expected a text such as "
        "'Question: {{prompt}}\\nAnswer: {{response}}'; {{{{ and }}}} are literal braces",
        text, at + 1, why);
  };
  Part part;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      part.text += c;
    } else if (at + 1 < text.size() && text[at + 1] == c) {
      part.text += c;
      ++at;
    } else if (c == '}') {
      refuse(at, "a closing brace without an opening one");
    } else {
      // A name may contain any characters except braces.
      const size_t end = text.find_first_of("{}", at + 1);
      if (end == text.npos || text[end] == '{') refuse(at, "the brace is not closed");
      const std::string name(text.substr(at + 1, end - at - 1));
      if (name.empty()) refuse(at, "there is no name in the braces");
      if (name == "response" && has_response_) refuse(at, "duplicate {response}");
      add_name(name, part);
      at = end;
    }
  }
  (has_response_ ? after_ : before_).push_back(part);
  if (!has_response_) refuse(text.size(), "there is no {response}, so nothing would be learned");
  // The literal text right after {response} ends the turn. It has a loss and is stored separately.
  ending_ = std::exchange(after_.front().text, {});
}

void InstructionTemplate::add_name(const std::string& name, Part& part) {
  const bool response = name == "response";
  if (!response) {
    part.name = name;
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
  }
  (has_response_ ? after_ : before_).push_back(std::exchange(part, {}));
  has_response_ = has_response_ || response;
}

TurnEnding turn_ending(const InstructionTemplate& form, const Tokenizer& tokenizer) {
  TurnEnding out{form.ending(), {}};
  const std::optional<int32_t> end = tokenizer.end_of_text();
  // The end-of-text token is appended as an id, so a template that spells its name must not add
  // another.
  const std::string_view name = end ? tokenizer.token_bytes(*end) : std::string_view();
  if (!name.empty() && out.text.ends_with(name)) out.text.resize(out.text.size() - name.size());
  for (const int32_t id : tokenizer.encode(out.text)) {
    if (id == end || !tokenizer.is_special(id)) continue;
    out.token = id;
    break;
  }
  return out;
}

}  // namespace tessera::data
