// A template that combines an instruction and its response into one text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::data {

class Tokenizer;

// Text with names in braces, as in "### Question\n{prompt}\n### Answer\n{response}\n"; {{ and }}
// are literal braces. The loss is on {response} and on the text after it up to the next name, which
// is the ending of a turn. All other names belong to the prompt. A name may appear several times,
// {response} exactly once.
class InstructionTemplate {
 public:
  // Throws Error with the position if a brace is not closed or not opened, if a name is empty, or
  // if {response} does not appear exactly once.
  explicit InstructionTemplate(std::string_view text);

  // All names other than response, without duplicates.
  const std::vector<std::string>& names() const { return names_; }

  // The literal text right after {response}, such as "<|im_end|>\n".
  const std::string& ending() const { return ending_; }

  // Return the text before the response, and the text after its ending, which begins with a name or
  // is empty. `value(name)` returns the text of a name.
  template <class Value>
  std::string before(const Value& value) const {
    return filled(before_, value);
  }
  template <class Value>
  std::string after(const Value& value) const {
    return filled(after_, value);
  }

 private:
  struct Part {
    std::string text, name;  // literal text, followed by the value of the name, if not empty
  };
  template <class Value>
  static std::string filled(const std::vector<Part>& parts, const Value& value) {
    std::string out;
    for (const Part& part : parts) {
      out += part.text;
      if (!part.name.empty()) out += value(part.name);
    }
    return out;
  }
  void add_name(const std::string& name, Part& part);

  std::vector<Part> before_, after_;
  std::string ending_;
  std::vector<std::string> names_;
  bool has_response_ = false;
};

// How the turns of a template end in training.
struct TurnEnding {
  std::string text;              // the template's ending, without the name of the end-of-text token
  std::optional<int32_t> token;  // the first special token in it; nothing: the end-of-text token
                                 // follows each turn
};
TurnEnding turn_ending(const InstructionTemplate& form, const Tokenizer& tokenizer);

}  // namespace tessera::data
