// Cuts the printed text into tokens that know where they stood.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct Token {
  // kId: one of % $ @ # with a number behind it.
  enum Kind : uint8_t { kWord, kString, kInteger, kNumber, kId, kMark, kLineEnd, kEnd };
  Kind kind = kEnd;
  char mark = 0;        // of kMark and kId
  std::string text;     // of words and strings, and of all for messages
  int64_t integer = 0;  // of kInteger and kId
  double number = 0;    // of kNumber
  int line = 1, column = 1;
};

// Empty lines leave no tokens. Throws Error ("source:line:column: found …, wanted …").
std::vector<Token> tokens_of(std::string_view text, const std::string& source);

// A token as a message names it.
std::string describe(const Token& t);

}  // namespace tessera
