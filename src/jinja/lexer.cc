// Scans a template: text up to the next {{, {% or {#, then the tokens of a tag up to its end. The
// rules for white space follow Jinja's lexer: lstrip_blocks applies where only blanks are
// between the tag and the start of its line, or the end of a tag that removed a line end.
//
// One pass without backtracking; each character is visited a constant number of times. Inside a
// tag, `}}` and `%}` end it only where no bracket is open, so a dictionary may end in `}}`. Line
// ends are converted to \n first and the last one is dropped (keep_trailing_newline is off), so
// white space rules see one kind of line end.
#include "jinja/lexer.h"

#include <array>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the text with line ends as \n, without the last one.
std::string with_plain_lines(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
      continue;
    }
    out += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

void append_utf8(uint32_t code, std::string& out) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

std::optional<uint32_t> hex_number(std::string_view digits) {
  uint32_t n = 0;
  for (const char c : digits) {
    const size_t at =
        std::string_view("0123456789abcdef").find(is_digit(c) ? c : static_cast<char>(c | 0x20));
    if (at == std::string_view::npos) return std::nullopt;
    n = n << 4 | static_cast<uint32_t>(at);
  }
  return n;
}

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& source)
      : text_(with_plain_lines(text)), source_(source) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) scan_text();
    add(TokenKind::kEnd, "", text_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& message) {
    const Location where = location(at);
    throw Error("{}:{}:{}: {}", source_, where.line, where.column, message);
  }
  bool sees(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }

  // Positions are requested in ascending order, so each character is counted once.
  Location location(size_t at) {
    if (at < counted_) counted_ = 0, here_ = {};
    for (; counted_ < at; ++counted_) {
      if (text_[counted_] == '\n')
        here_ = {here_.line + 1, 1};
      else if ((static_cast<unsigned char>(text_[counted_]) & 0xc0) != 0x80)
        ++here_.column;
    }
    return here_;
  }
  void add(TokenKind kind, std::string text, size_t at) {
    tokens_.push_back({kind, std::move(text), location(at)});
  }
  void skip_space() {
    size_t bytes = 0;
    while (at_ < text_.size() && is_space(text_, at_, bytes)) at_ += bytes;
  }

  void scan_text();
  void scan_comment(size_t begin);
  void scan_tag(bool print);
  bool scan_end(bool print);
  void scan_token();
  void scan_number();
  void scan_string();
  void scan_escape(size_t begin, std::string& value);
  void scan_operator();

  const std::string text_;
  const std::string& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool line_starts_ = true;  // the last tag removed the end of its line
  std::string brackets_;     // the open brackets of this tag
  size_t counted_ = 0;       // here_ is the location of this byte
  Location here_;
};

void Lexer::scan_text() {
  const size_t begin = at_;
  size_t open = begin;
  // Find the next tag.
  for (;; ++open) {
    open = text_.find('{', open);
    if (open == text_.npos || open + 1 >= text_.size()) {
      add(TokenKind::kText, text_.substr(begin), begin);
      at_ = text_.size();
      return;
    }
    if (std::string_view("{%#").find(text_[open + 1]) != std::string_view::npos) break;
  }
  const char kind = text_[open + 1];
  const char sign = open + 2 < text_.size() ? text_[open + 2] : ' ';
  std::string_view before = std::string_view(text_).substr(begin, open - begin);
  if (sign == '-') {
    before = stripped(before, Side::kRight);
  } else if (sign != '+' && kind != '{') {
    const size_t line = before.rfind('\n') + 1;  // npos + 1 = 0
    if ((line > 0 || line_starts_) && stripped(before.substr(line)).empty())
      before = before.substr(0, line);
  }
  if (!before.empty()) add(TokenKind::kText, std::string(before), begin);
  line_starts_ = false;
  at_ = open + 2 + (sign == '-' || sign == '+' ? 1 : 0);
  if (kind == '#') return scan_comment(open);
  add(kind == '{' ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "", open);
  scan_tag(kind == '{');
}

void Lexer::scan_comment(size_t begin) {
  const size_t end = text_.find("#}", at_);
  if (end == text_.npos) fail(begin, "the comment is not closed, expected '#}'");
  const char sign = end > at_ ? text_[end - 1] : ' ';
  at_ = end + 2;
  if (sign == '-')
    skip_space();
  else if (sign != '+' && sees("\n"))
    ++at_;
  line_starts_ = text_[at_ - 1] == '\n';
}

// Scans the end of a tag if it is here. Returns false otherwise.
bool Lexer::scan_end(bool print) {
  if (!brackets_.empty()) return false;
  const std::string_view end = print ? "}}" : "%}";
  const bool signed_end = sees("-") || (!print && sees("+"));
  if (text_.compare(at_ + (signed_end ? 1 : 0), 2, end) != 0) return false;
  const char sign = signed_end ? text_[at_] : ' ';
  add(print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "", at_);
  at_ += 2 + (signed_end ? 1 : 0);
  if (sign == '-')
    skip_space();
  else if (!print && sign != '+' && sees("\n"))
    ++at_;
  line_starts_ = text_[at_ - 1] == '\n';
  return true;
}

void Lexer::scan_tag(bool print) {
  const size_t begin = at_ - 2;
  brackets_.clear();
  for (;;) {
    skip_space();
    if (at_ >= text_.size())
      fail(begin,
           print ? "the tag is not closed, expected '}}'" : "the tag is not closed, expected '%}'");
    if (scan_end(print)) return;
    scan_token();
  }
}

void Lexer::scan_token() {
  const char c = text_[at_];
  if (is_letter(c)) {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    add(TokenKind::kName, text_.substr(begin, at_ - begin), begin);
  } else if (is_digit(c)) {
    scan_number();
  } else if (c == '\'' || c == '"') {
    scan_string();
  } else {
    scan_operator();
  }
}

void Lexer::scan_number() {
  const size_t begin = at_;
  std::string digits;
  bool real = false;
  const auto take = [&] {
    for (; at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '_'); ++at_)
      if (text_[at_] != '_') digits += text_[at_];
  };
  const auto digit_at = [&](size_t at) { return at < text_.size() && is_digit(text_[at]); };
  take();
  if (sees(".") && digit_at(at_ + 1)) {
    real = true;
    digits += text_[at_++];
    take();
  }
  const bool exponent = sees("e") || sees("E");
  const bool has_sign =
      exponent && at_ + 1 < text_.size() && (text_[at_ + 1] == '+' || text_[at_ + 1] == '-');
  if (exponent && digit_at(at_ + (has_sign ? 2 : 1))) {
    real = true;
    digits += 'e';
    if (has_sign) digits += text_[at_ + 1];
    at_ += has_sign ? 2 : 1;
    take();
  }
  if (at_ < text_.size() && is_letter(text_[at_])) fail(begin, "this is not a decimal number");
  add(real ? TokenKind::kReal : TokenKind::kInteger, digits, begin);
}

void Lexer::scan_string() {
  const size_t begin = at_;
  const char quote = text_[at_++];
  std::string value;
  for (;;) {
    if (at_ >= text_.size()) fail(begin, "the string is not closed");
    const char c = text_[at_++];
    if (c == quote) break;
    if (c == '\\')
      scan_escape(begin, value);
    else
      value += c;
  }
  add(TokenKind::kString, std::move(value), begin);
}

// Scans the character after a backslash. Replaces Python's escapes; otherwise keeps the backslash.
void Lexer::scan_escape(size_t begin, std::string& value) {
  if (at_ >= text_.size()) fail(begin, "the string is not closed");
  constexpr std::string_view kNames = "ntr\\'\"abfv", kValues = "\n\t\r\\'\"\a\b\f\v";
  const char c = text_[at_++];
  if (const size_t i = kNames.find(c); i != kNames.npos) {
    value += kValues[i];
  } else if (c == '\n') {
    return;
  } else if (c == 'x' || c == 'u' || c == 'U') {
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    const auto code = at_ + digits <= text_.size()
                          ? hex_number(std::string_view(text_).substr(at_, digits))
                          : std::nullopt;
    if (!code || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
      fail(at_ - 2,
           fmt::format("\\{} is not followed by {} hexadecimal digits of a character", c, digits));
    append_utf8(*code, value);
    at_ += digits;
  } else if (c >= '0' && c <= '7') {
    uint32_t code = static_cast<uint32_t>(c - '0');
    for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7';
         ++more)
      code = code * 8 + static_cast<uint32_t>(text_[at_++] - '0');
    append_utf8(code, value);
  } else {
    value += {'\\', c};
  }
}

void Lexer::scan_operator() {
  constexpr std::array kOperators{"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                  "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                  ">",  "<",  "=",  ".",  ":",  "|",  ","};
  for (const std::string_view op : kOperators) {
    if (!sees(op)) continue;
    const char c = op[0];
    if (c == '(' || c == '[' || c == '{') {
      brackets_ += c;
    } else if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty() || brackets_.back() != open)
        fail(at_, fmt::format("'{}' does not close a bracket", c));
      brackets_.pop_back();
    }
    add(TokenKind::kOperator, std::string(op), at_);
    at_ += op.size();
    return;
  }
  fail(at_, fmt::format("unexpected character '{}'",
                        printable(std::string_view(text_).substr(
                            at_, std::max<size_t>(utf8_length(text_, at_), 1)))));
}

}  // namespace

std::vector<Token> tokenize(std::string_view text, const std::string& source) {
  return Lexer(text, source).run();
}

}  // namespace tessera::jinja
