// How an instruction and its answer become one text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::data {

// Text with names in braces, as in "### Question\n{prompt}\n### Answer\n{response}\n"; {{ and }}
// are braces. The model learns to write {response} and the text after it, up to the next name:
// the ending of a turn. All other names are of the prompt. Each name may appear several times,
// {response} once.
class InstructionTemplate {
 public:
  // Throws Error with the place for a brace that is not closed, an empty name, and a template
  // without {response} or with more than one.
  explicit InstructionTemplate(std::string_view text);

  // All but response, each once.
  const std::vector<std::string>& names() const { return names_; }

  // The template's own text right after {response}, such as "<|im_end|>\n".
  const std::string& ending() const { return ending_; }

  // The text before the response, and the text after its ending, which begins with a name or is
  // empty; `value` returns what a name stands for.
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
    std::string text, name;  // text first, then what the name stands for; no name: nothing
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

}  // namespace tessera::data
