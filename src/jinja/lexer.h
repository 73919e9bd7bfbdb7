// Divides a template into tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::jinja {

struct Location {
  int line = 1, column = 1;  // in characters, from 1
};

enum class TokenKind : uint8_t {
  kText,
  kBlockBegin,
  kBlockEnd,
  kPrintBegin,
  kPrintEnd,
  kName,
  kString,
  kInteger,
  kReal,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // the value, if it is a string
  Location at;
};

// Returns the tokens, the last of which is kEnd. White space is removed as in Jinja with
// trim_blocks and lstrip_blocks: one line end after a statement or comment, and the blanks before
// one that starts its line; `-` removes all white space on its side, `+` none. Throws Error with
// `source`, line and column.
std::vector<Token> tokenize(std::string_view text, const std::string& source);

}  // namespace tessera::jinja
