// Splits the printed text into tokens with their positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tessera {

struct Token {
  // kId: one of % $ @ #, followed by a number.
  enum Kind : uint8_t { kWord, kString, kInteger, kNumber, kId, kMark, kLineEnd, kEnd };
  Kind kind = kEnd;
  char mark = 0;        // for kMark and kId
  std::string text;     // for kWord and kString; for all others, used in messages
  int64_t integer = 0;  // for kInteger and kId
  double number = 0;    // for kNumber
  int line = 1, column = 1;
};

// Returns the tokens; empty lines have none. Throws Error ("source:line:column: found …, expected
// …").
std::vector<Token> tokens_of(std::string_view text, const std::string& source);

// Returns a token as messages show it.
std::string describe(const Token& t);

// Reads tokens in order. Throws Error with what was found and what was expected.
class TokenReader {
 public:
  TokenReader(std::string_view text, const std::string& source)
      : source_(source), tokens_(tokens_of(text, source)) {}

 protected:
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& next() {
    const Token& t = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return t;
  }
  [[noreturn]] void fail(const Token& t, const std::string& wanted) const {
    throw Error("{}:{}:{}: found {}, expected {}", source_, t.line, t.column, describe(t), wanted);
  }

  bool is_mark(char c, size_t ahead = 0) const {
    return peek(ahead).kind == Token::kMark && peek(ahead).mark == c;
  }
  bool is_word(std::string_view w, size_t ahead = 0) const {
    return peek(ahead).kind == Token::kWord && peek(ahead).text == w;
  }
  bool take_mark(char c) {
    if (!is_mark(c)) return false;
    next();
    return true;
  }
  void mark(char c) {
    if (!take_mark(c)) fail(peek(), fmt::format("'{}'", c));
  }
  bool take_word(std::string_view w) {
    if (!is_word(w)) return false;
    next();
    return true;
  }
  void word(std::string_view w) {
    if (!take_word(w)) fail(peek(), fmt::format("'{}'", w));
  }
  // key=
  bool take_key(std::string_view key) {
    if (!is_word(key) || !is_mark('=', 1)) return false;
    next();
    next();
    return true;
  }
  void line_end() {
    if (peek().kind != Token::kLineEnd) fail(peek(), "the end of the line");
    next();
  }
  std::string name() {
    if (peek().kind != Token::kWord && peek().kind != Token::kString) fail(peek(), "a name");
    return next().text;
  }
  int64_t integer() {
    if (peek().kind != Token::kInteger) fail(peek(), "a whole number");
    return next().integer;
  }
  int64_t key_integer(std::string_view key) {
    if (!take_key(key)) fail(peek(), fmt::format("{}=", key));
    return integer();
  }
  double key_number(std::string_view key) {
    if (!take_key(key)) fail(peek(), fmt::format("{}=", key));
    return number();
  }
  double number() {
    const Token& t = next();
    if (t.kind == Token::kNumber) return t.number;
    if (t.kind == Token::kInteger) return static_cast<double>(t.integer);
    if (t.kind == Token::kWord && t.text == "inf") return std::numeric_limits<double>::infinity();
    if (t.kind == Token::kWord && t.text == "nan") return std::numeric_limits<double>::quiet_NaN();
    fail(t, "a number");
  }
  // Returns look_up(next name) if that has a value, otherwise fails.
  template <class F>
  auto entry(F look_up, const char* wanted) {
    const auto found = peek().kind == Token::kWord ? look_up(peek().text) : decltype(look_up(""))();
    if (!found) fail(peek(), wanted);
    next();
    return *found;
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace tessera
