// The pattern of a step of a tokenizer.json: a text or an expression.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/expression.h"

namespace tessera::data {

struct PatternText {
  std::string text;
  bool is_expression = false;
  bool operator==(const PatternText&) const = default;
};

class TextPattern {
 public:
  // Throws Error if the expression is not supported or the text is empty.
  explicit TextPattern(const PatternText& pattern);

  // Calls `found` for each match, from left to right.
  void each_match(std::string_view text, const std::function<void(PatternMatch)>& found) const;

  // Appends `text` with `content` in place of each match.
  void replace(std::string_view text, std::string_view content, std::string& out) const;

 private:
  std::string text_;
  std::optional<Expression> expression_;
};

}  // namespace tessera::data
