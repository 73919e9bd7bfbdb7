// The regular expression that finds the answer in a text that a model wrote (RE2's syntax: no
// lookahead and no backreferences). Matching takes time proportional to the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tessera {

class AnswerPattern {
 public:
  // Throws Error with the reason for an expression that is not valid, nested too deeply or longer
  // than 4,096 bytes.
  explicit AnswerPattern(const std::string& expression);
  ~AnswerPattern();
  AnswerPattern(const AnswerPattern&) = delete;
  AnswerPattern& operator=(const AnswerPattern&) = delete;

  // Returns the first group of the first match, or the whole match if the expression has no group.
  // Returns an empty string if nothing matches.
  std::string find(std::string_view text) const;

 private:
  struct Compiled;  // the library's type stays in answer_pattern.cc
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace tessera
