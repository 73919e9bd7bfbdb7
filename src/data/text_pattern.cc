#include "data/text_pattern.h"

#include "base/error.h"

namespace tessera::data {

TextPattern::TextPattern(const PatternText& pattern) : text_(pattern.text) {
  if (text_.empty()) throw Error("a pattern is empty, expected at least one character");
  if (pattern.is_expression) expression_.emplace(pattern.text);
}

void TextPattern::each_match(std::string_view text,
                             const std::function<void(PatternMatch)>& found) const {
  if (expression_) return expression_->each_match(text, found);
  for (size_t at = text.find(text_); at != text.npos; at = text.find(text_, at + text_.size()))
    found({at, at + text_.size()});
}

void TextPattern::replace(std::string_view text, std::string_view content, std::string& out) const {
  size_t from = 0;
  each_match(text, [&](PatternMatch match) {
    out.append(text.substr(from, match.begin - from)).append(content);
    from = match.end;
  });
  out.append(text.substr(from));
}

}  // namespace tessera::data
