// Reads one text from a JSON line: first with simdjson, which validates and finds the key at
// several GB/s but reports no positions, then with a scanner in this file for the lines that it
// rejects.
#include "data/json_line.h"

#include <simdjson.h>
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/utf8.h"
#include "data/unicode.h"

namespace tessera::data {

struct JsonLineParser::Parser {
  simdjson::dom::parser dom;
};

JsonLineParser::JsonLineParser(std::string key)
    : key_(std::move(key)), parser_(std::make_unique<Parser>()) {}
JsonLineParser::~JsonLineParser() = default;

namespace {

// Reads a line that simdjson rejected. Throws Error unless the only fault is invalid UTF-8.
void slow_path(std::string_view line, const std::string& key, const std::string& place,
               std::string& out) {
  JsonScan scan = scan_json(line, key);
  const auto where = [&](size_t at) {
    return fmt::format("{}:{}", place, count_characters(line.substr(0, at)) + 1);
  };
  if (!scan.error.empty()) throw Error("{}: invalid JSON: {}", where(scan.error_at), scan.error);
  if (!scan.object) {
    throw Error("{}: expected one JSON object per line, as in {{\"{}\": \"…\"}}", where(0), key);
  }
  if (!scan.has_key) {
    std::string has;
    for (const std::string& k : scan.keys) has += (has.empty() ? "'" : ", '") + k + "'";
    throw Error("{}: this object has no key '{}'; it has {}. Give the key of the text with --key",
                where(0), key, has.empty() ? "none" : has);
  }
  if (scan.found != "string") {
    throw Error("{}: key '{}' has the type {}, expected string", where(scan.error_at), key,
                scan.found);
  }
  out = std::move(scan.text);
}

}  // namespace

void JsonLineParser::parse(std::string& line, const std::string& place, std::string& out) {
  // simdjson reads up to SIMDJSON_PADDING bytes past the end in one vector, so they must be
  // allocated.
  const size_t size = line.size();
  if (line.capacity() < size + simdjson::SIMDJSON_PADDING) {
    line.reserve(2 * size + simdjson::SIMDJSON_PADDING);
  }
  std::string_view text;
  constexpr bool kCopy = false;  // the line already has the padding
  if (parser_->dom.parse(line.data(), size, kCopy)[key_].get(text) == simdjson::SUCCESS) {
    out.assign(text);
  } else {
    slow_path(line, key_, place, out);
  }
}

// ---- A recursive-descent reader of one JSON value (RFC 8259) that reports the byte of the first
// error. Only the text of the requested key is decoded and kept. Bytes inside strings are
// arbitrary, so that text in a broken encoding is not lost.

namespace {

constexpr int kDeepest = 512;
constexpr size_t kKeysKept = 8;

// Thrown to leave the recursion; run() catches it.
struct Mistake {
  size_t at;
  const char* what;
};

// Encodes a code point, also a lone surrogate, as UTF-8 bytes.
void append_utf8(uint32_t c, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 63));
    }
    put(0x80 | (c >> 6 & 63));
  }
  put(0x80 | (c & 63));
}

// at_ is the next byte. Each method reads one production of the grammar from there and throws
// Mistake if it does not match.
class Scanner {
 public:
  explicit Scanner(std::string_view s) : s_(s) {}

  JsonScan run(std::string_view key) {
    JsonScan result;
    try {
      skip_space();
      result.object = peek() == '{';
      if (result.object) {
        top_object(key, result);
      } else {
        value(0);
      }
      skip_space();
      if (at_ < s_.size()) fail("unexpected text after the value");
    } catch (const Mistake& m) {
      result.error_at = m.at;
      result.error = m.what;
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const char* what) const { throw Mistake{at_, what}; }
  // Returns the next byte, 0 to 255, or -1 at the end, so that every comparison also covers the
  // end.
  int peek() const { return at_ < s_.size() ? byte_at(s_, at_) : -1; }
  // White space of RFC 8259 without the line feed, which cannot occur within a line.
  void skip_space() {
    while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\t' || s_[at_] == '\r')) ++at_;
  }
  void expect(char c, const char* what) {
    skip_space();
    if (peek() != c) fail(at_ < s_.size() ? what : "the line ends too early");
    ++at_;
    skip_space();
  }
  // Called after an element. Returns true if another one follows.
  bool more(char close, const char* what) {
    skip_space();
    if (peek() == close) {
      ++at_;
      return false;
    }
    expect(',', what);
    return true;
  }

  // Reads an object. `member(name)` reads the value of each member.
  template <class Member>
  void members(const Member& member) {
    expect('{', "");
    if (peek() == '}') {
      ++at_;
      return;
    }
    do {
      std::string name;
      string(name);
      expect(':', "expected ':' after a key");
      member(std::move(name));
    } while (more('}', "expected ',' or '}' after a member"));
  }

  void top_object(std::string_view key, JsonScan& result) {
    members([&](std::string name) {
      // If a key is duplicate, the first one is used, as in simdjson.
      if (name == key && !result.has_key) {
        result.has_key = true;
        // The position of the value, for a message about its type. A later syntax error replaces
        // it.
        result.error_at = at_;
        result.found = kind();
        if (peek() == '"')
          string(result.text);
        else
          value(1);
      } else {
        value(1);
      }
      if (result.keys.size() < kKeysKept) result.keys.push_back(std::move(name));
    });
  }

  const char* kind() const {
    switch (peek()) {
      case '"':
        return "string";
      case '{':
        return "object";
      case '[':
        return "list";
      case 't':
      case 'f':
        return "boolean";
      case 'n':
        return "null";
      default:
        return "number";
    }
  }

  // The depth is limited, since a line of brackets would otherwise overflow the stack.
  void value(int depth) {
    if (depth > kDeepest) fail("nested more than 512 deep");
    switch (peek()) {
      case '"': {
        std::string ignored;
        return string(ignored);
      }
      case '{':
        return object(depth);
      case '[':
        return list(depth);
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      case -1:
        fail("the line ends too early");
      default:
        return number();
    }
  }

  void object(int depth) {
    members([&](const std::string&) { value(depth + 1); });
  }

  void list(int depth) {
    expect('[', "");
    if (peek() == ']') {
      ++at_;
      return;
    }
    do {
      value(depth + 1);
    } while (more(']', "expected ',' or ']' after an element"));
  }

  void word(std::string_view w) {
    if (s_.substr(at_, w.size()) != w)
      fail("expected a value: string, number, true, false, null, {, [");
    at_ += w.size();
  }

  bool digits() {
    const size_t start = at_;
    while (std::isdigit(peek()) != 0) ++at_;
    return at_ > start;
  }
  // Checks the grammar of RFC 8259, section 6, and computes no value.
  void number() {
    if (peek() == '-') ++at_;
    const bool zero = peek() == '0';
    const size_t start = at_;
    if (!digits()) fail("expected a value: string, number, true, false, null, {, [");
    if (zero && at_ - start > 1) fail("a number may not start with 0");
    if (peek() == '.') {
      ++at_;
      if (!digits()) fail("expected a digit after '.'");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) fail("expected a digit in the exponent");
    }
  }

  // Reads the four hexadecimal digits of \uXXXX; (d | 0x20) is the lowercase letter.
  uint32_t hex4() {
    uint32_t c = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const int d = peek();
      if (std::isxdigit(d) == 0) fail("expected four hexadecimal digits after \\u");
      const uint32_t digit = d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10;
      c = c << 4 | digit;
    }
    return c;
  }

  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    const int c = peek();
    const size_t i = c < 0 ? kNames.npos : kNames.find(s_[at_]);
    if (i != kNames.npos) {
      out.push_back(kValues[i]);
      ++at_;
      return;
    }
    if (c != 'u') fail("unknown escape sequence");
    ++at_;
    uint32_t code = hex4();
    // A pair of surrogates (UTF-16) represents one code point above U+FFFF. A high surrogate
    // without a low one after it is kept as it is.
    const bool high = code >= 0xD800 && code < 0xDC00;
    if (high && s_.substr(at_, 2) == "\\u") {
      const size_t back = at_;
      at_ += 2;
      const uint32_t low = hex4();
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        at_ = back;
      }
    }
    append_utf8(code, out);
  }

  void string(std::string& out) {
    if (peek() != '"')
      fail(at_ < s_.size() ? "expected a string in quotes" : "the line ends too early");
    ++at_;
    for (;;) {
      const int c = peek();
      if (c < 0) fail("the line ends inside a string");
      if (c < 0x20) fail("unescaped control character in a string");
      const char read = s_[at_++];
      if (read == '"') return;
      if (read == '\\') {
        escape(out);
      } else {
        out.push_back(read);
      }
    }
  }

  std::string_view s_;
  size_t at_ = 0;
};

}  // namespace

JsonScan scan_json(std::string_view line, std::string_view key) { return Scanner(line).run(key); }

}  // namespace tessera::data
