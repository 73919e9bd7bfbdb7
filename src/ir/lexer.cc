// Splits the text of a program into tokens, in one pass. Line ends are tokens, since each entry is
// one line. Columns count characters, not bytes, and are computed incrementally, so long lines need
// only linear time.
#include "ir/lexer.h"

#include <cctype>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace tessera {
namespace {

bool is_letter(unsigned char c) { return std::isalpha(c) || c == '_'; }
bool is_digit(unsigned char c) { return std::isdigit(c) != 0; }
bool in_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '\''; }

// word     letters, digits, . and '     number    1, -2, 1e-05, inf, nan
// string   "…" with \" \\ \n           id        %7 $7 @7 #7
// mark     ( ) [ ] = , : -              line end  once per line that has tokens
class Lexer {
 public:
  Lexer(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) one();
    end_line();
    Token end;
    end.line = line_;
    end.column = column();
    tokens_.push_back(end);
    return std::move(tokens_);
  }

 private:
  // Returns the column of at_, counting only the characters since the last call.
  int column() {
    column_ += static_cast<int>(count_characters(text_.substr(counted_to_, at_ - counted_to_)));
    counted_to_ = at_;
    return column_;
  }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[noreturn]] void fail(const std::string& found, const char* wanted) {
    throw Error("{}:{}:{}: found {}, expected {}", source_, line_, column(), found, wanted);
  }

  Token start(Token::Kind kind) {
    Token t;
    t.kind = kind;
    t.line = line_;
    t.column = column();
    return t;
  }
  void finish(Token t, size_t length) {
    if (t.text.empty() && t.kind != Token::kString) t.text = text_.substr(at_, length);
    at_ += length;
    tokens_.push_back(std::move(t));
  }

  void end_line() {
    if (!tokens_.empty() && tokens_.back().kind != Token::kLineEnd)
      finish(start(Token::kLineEnd), 0);
  }

  void one() {
    const char c = peek();
    if (c == '\n') {
      end_line();
      ++at_;
      ++line_;
      counted_to_ = at_;
      column_ = 1;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '"') {
      string();
    } else if (std::string_view("%$@#").find(c) != std::string_view::npos) {
      id(c);
      // -inf and -nan have a letter after the sign.
    } else if (is_digit(c) || (c == '-' && (is_digit(peek(1)) || is_letter(peek(1))))) {
      number();
    } else if (is_letter(c)) {
      word();
    } else if (std::string_view("()[]=,:-").find(c) != std::string_view::npos) {
      Token t = start(Token::kMark);
      t.mark = c;
      finish(std::move(t), 1);
    } else {
      fail(std::isprint(static_cast<unsigned char>(c))
               ? fmt::format("'{}'", c)
               : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c)),
           "a word, a number or one of ()[]=,:-");
    }
  }

  void string() {
    Token t = start(Token::kString);
    size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != '"' && text_[i] != '\n'; ++i) {
      if (text_[i] != '\\') {
        t.text += text_[i];
        continue;
      }
      ++i;
      if (i < text_.size()) t.text += text_[i] == 'n' ? '\n' : text_[i];
    }
    if (i >= text_.size() || text_[i] != '"') fail("an unterminated string", "a closing '\"'");
    finish(std::move(t), i + 1 - at_);
  }

  void id(char mark) {
    Token t = start(Token::kId);
    t.mark = mark;
    const char* from = text_.data() + at_ + 1;
    const auto [end, error] = std::from_chars(from, text_.data() + text_.size(), t.integer);
    if (error != std::errc() || t.integer < 0 || t.integer > std::numeric_limits<int32_t>::max())
      fail(fmt::format("'{}'", mark), "a number after it");
    finish(std::move(t), end - from + 1);
  }

  // Tries an integer first, so that 64-bit values keep all digits; anything else must be a double.
  void number() {
    size_t length = 1;
    while (in_word(peek(length)) || ((peek(length) == '-' || peek(length) == '+') &&
                                     (peek(length - 1) == 'e' || peek(length - 1) == 'E')))
      ++length;
    const char *from = text_.data() + at_, *to = from + length;
    Token t = start(Token::kInteger);
    if (const auto r = std::from_chars(from, to, t.integer); r.ec != std::errc() || r.ptr != to) {
      t.kind = Token::kNumber;
      const auto d = std::from_chars(from, to, t.number);
      if (d.ec != std::errc() || d.ptr != to)
        fail(fmt::format("'{}'", text_.substr(at_, length)), "a number");
    }
    finish(std::move(t), length);
  }

  void word() {
    size_t length = 1;
    while (in_word(peek(length))) ++length;
    finish(start(Token::kWord), length);
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0, counted_to_ = 0;  // columns up to counted_to_ are counted
  int line_ = 1, column_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, const std::string& source) {
  return Lexer(text, source).run();
}

std::string describe(const Token& t) {
  if (t.kind == Token::kEnd) return "the end of the text";
  if (t.kind == Token::kLineEnd) return "the end of the line";
  return fmt::format("'{}'", printable(t.text));
}

}  // namespace tessera
