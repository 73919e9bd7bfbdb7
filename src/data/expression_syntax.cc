// One pass over the expression. Constructs whose meaning differs between Oniguruma and PCRE2, such
// as a quantifier after a quantifier, are rejected or rewritten here; what remains means the same
// to both.
//
// Tokenizer files are written for Oniguruma (through Hugging Face's tokenizers), and PCRE2 executes
// them here. The two agree on structure but not on classes: \s, \w, \p{…} and case folding depend
// on the version of Unicode. So every class and every literal is computed to an explicit set of
// code points, and only groups, alternatives, quantifiers and lookaround remain as text. The result
// is a list of parts, each a text or the number of a set, which expression.cc prints.
//
// The parser is strict: what it does not understand is an error with its byte, because an
// expression that is read differently would split texts differently from training, without any sign
// of it.
#include "data/expression_syntax.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "data/unicode.h"

namespace tessera::data {
namespace {

constexpr size_t kLongestExpression = 1 << 16;
constexpr int kDeepestSet = 8;
constexpr int kMostRepeats = 1000;

bool is_ascii_letter(char32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z' && c < 0x80; }

// Returns a letter with its other case. U+017F folds to s and U+212A to k.
CodeSet any_case(char32_t c) {
  CodeSet out(c, c);
  if (!is_ascii_letter(c)) return out;
  out.add(c ^ 32, c ^ 32);
  if ((c | 32) == 's') out.add(0x17F, 0x17F);
  if ((c | 32) == 'k') out.add(0x212A, 0x212A);
  return out;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view pattern) : pattern_(pattern) {}
  ParsedExpression run();

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(
        "the expression '{}' has {} at byte {}, which is not supported. Expected groups, "
        "sets, lookahead, lookbehind and quantifiers of Oniguruma's syntax",
        pattern_, message, at_);
  }
  bool starts(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool accept(std::string_view text) {
    if (!starts(text)) return false;
    at_ += text.size();
    return true;
  }
  bool done() const { return at_ >= pattern_.size(); }
  char32_t character();  // decodes and skips one
  void put(std::string_view text) { out_.parts.push_back({std::string(text), -1}); }
  void put(const CodeSet& set);
  void literal(char32_t c);
  void item();
  void group();
  void escape();
  bool quantifier();
  void interval();
  std::optional<CodeSet> escaped_set();
  CodeSet property();
  char32_t escaped_character();
  char32_t hex(size_t digits);
  CodeSet set(int depth);
  void set_item(CodeSet& into, int depth);
  CodeSet folded(const CodeSet& set) const;

  std::string_view pattern_;
  size_t at_ = 0;
  ParsedExpression out_;
  std::vector<bool> ignore_case_{false};  // one value per open group
  char32_t previous_letter_ = 0;          // the literal directly before, in a group without case
};

char32_t ExpressionParser::character() {
  if (done()) fail("an end");
  const Utf8 u = decode_utf8(pattern_.substr(at_));
  if (u.code == Utf8::kInvalid) fail("a byte that is not UTF-8");
  at_ += u.bytes;
  return u.code;
}

void ExpressionParser::put(const CodeSet& set) {
  const auto known = std::find(out_.sets.begin(), out_.sets.end(), set);
  out_.parts.push_back({"", static_cast<int>(known - out_.sets.begin())});
  if (known == out_.sets.end()) out_.sets.push_back(set);
}

// Two letters that are the folding of one character, such as U+FB01, would also match it there.
void ExpressionParser::literal(char32_t c) {
  if (!ignore_case_.back()) return put(CodeSet(c, c));
  if (c >= 0x80) fail("a character outside ASCII after (?i)");
  const char pair[] = {static_cast<char>(previous_letter_ | 32), static_cast<char>(c | 32), 0};
  for (const std::string_view folded : {"ss", "ff", "fi", "fl", "st"})
    if (previous_letter_ != 0 && folded == pair) fail(fmt::format("'{}' after (?i)", pair));
  put(any_case(c));
  previous_letter_ = c;
}

char32_t ExpressionParser::hex(size_t digits) {
  uint32_t value = 0;
  const std::string_view text = pattern_.substr(at_, digits);
  if (text.empty() || text.size() < digits) fail("an incomplete number");
  for (const char c : text) {
    const char low = static_cast<char>(c | 32);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(low >= 'a' && low <= 'f')) fail("a number that is not hexadecimal");
    value = value * 16 + static_cast<uint32_t>(digit ? c - '0' : low - 'a' + 10);
  }
  at_ += digits;
  if (value > 0x10FFFF) fail("a character above U+10FFFF");
  return value;
}

// After a backslash that does not begin a set.
char32_t ExpressionParser::escaped_character() {
  if (accept("x{")) {
    const size_t end = pattern_.find('}', at_);
    if (end == pattern_.npos || end - at_ > 6) fail("an incomplete \\x{…}");
    const char32_t c = hex(end - at_);
    ++at_;
    return c;
  }
  if (accept("x")) {
    const char32_t c = hex(2);
    if (c >= 0x80) fail("\\x of a single byte");
    return c;
  }
  if (accept("u")) return hex(4);
  constexpr std::string_view kNames = "nrtfvae", kCodes = "\n\r\t\f\v\a\x1B";
  if (done()) fail("a backslash at its end");
  const size_t known = kNames.find(pattern_[at_]);
  if (known != kNames.npos) return ++at_, kCodes[known];
  const char c = pattern_[at_];
  if (is_ascii_letter(byte_at(pattern_, at_)) || (c >= '0' && c <= '9') || c == '<')
    fail(fmt::format("\\{}", c));
  return character();
}

CodeSet ExpressionParser::property() {
  const size_t end = pattern_.find('}', at_);
  if (end == pattern_.npos) fail("an incomplete \\p{…}");
  std::string_view name = pattern_.substr(at_, end - at_);
  const bool negated = name.starts_with('^');
  if (negated) name.remove_prefix(1);
  const std::optional<CodeSet> found = named_set(name);
  if (!found) fail(fmt::format("the property '{}'", name));
  at_ = end + 1;
  return negated ? found->complement() : *found;
}

// Returns the character set of a class escape (\s, \d, \w, \p{…}); the backslash was already
// consumed. Returns nothing for another escape.
std::optional<CodeSet> ExpressionParser::escaped_set() {
  if (accept("p{")) return property();
  if (accept("P{")) return property().complement();
  if (accept("s")) return space_set();
  if (accept("S")) return space_set().complement();
  if (accept("d")) return named_set("Nd");
  if (accept("D")) return named_set("Nd")->complement();
  if (accept("w")) return word_set();
  if (accept("W")) return word_set().complement();
  return std::nullopt;
}

void ExpressionParser::escape() {
  if (accept("A")) return put("\\A");
  if (accept("z")) return put("\\z");
  if (starts("b") || starts("B")) {
    const bool boundary = accept("b");
    if (!boundary) at_ += 1;
    const CodeSet word = word_set();
    const auto look = [&](std::string_view how) { put(how), put(word), put(")"); };
    put("(?:"), look("(?<="), look(boundary ? "(?!" : "(?=");
    put("|"), look("(?<!"), look(boundary ? "(?=" : "(?!");
    return put(")");
  }
  if (const std::optional<CodeSet> set = escaped_set()) {
    if (ignore_case_.back()) fail("a set of characters after (?i)");
    return put(*set);
  }
  literal(escaped_character());
}

CodeSet ExpressionParser::folded(const CodeSet& set) const {
  if (!ignore_case_.back()) return set;
  CodeSet out;
  for (const auto& [first, last] : set.ranges()) {
    if (last >= 0x80) fail("a set with characters outside ASCII after (?i)");
    for (uint32_t c = first; c <= last; ++c) out.add(any_case(c));
  }
  return out;
}

// Adds one character, range, escape or nested set.
void ExpressionParser::set_item(CodeSet& into, int depth) {
  if (starts("[:")) fail("a POSIX bracket");
  if (accept("[")) return into.add(set(depth + 1));
  const auto one = [&]() -> char32_t {
    if (!accept("\\")) return character();
    if (accept("b")) return '\b';
    return escaped_character();
  };
  if (starts("\\") && at_ + 1 < pattern_.size()) {
    ++at_;
    if (const std::optional<CodeSet> found = escaped_set()) {
      if (ignore_case_.back()) fail("a set of characters after (?i)");
      if (starts("-") && !starts("-]")) fail("a range from a set");
      return into.add(*found);
    }
    --at_;
  }
  const char32_t first = one();
  if (!starts("-") || starts("-]")) return into.add(first, first);
  ++at_;
  if (starts("[") || starts("\\p") || starts("\\s") || starts("\\d") || starts("\\w"))
    fail("a range to a set");
  const char32_t last = one();
  if (last < first) fail("a range whose end is before its beginning");
  into.add(first, last);
}

// After '['. && intersects all that is before it with all that follows.
CodeSet ExpressionParser::set(int depth) {
  if (depth > kDeepestSet) fail("sets that are nested too deep");
  const bool negated = accept("^");
  if (starts("]")) fail("an empty set or one that begins with ']'");
  CodeSet all, part;
  bool intersects = false;
  for (;;) {
    if (done()) fail("a set without its ']'");
    const bool end = accept("]");
    if (!end && !accept("&&")) {
      set_item(part, depth);
      continue;
    }
    all = intersects ? all.intersect(part) : part;
    if (end) break;
    intersects = true;
    part = CodeSet();
  }
  all = folded(all);
  return negated ? all.complement() : all;
}

void ExpressionParser::group() {
  bool fold = ignore_case_.back();
  if (accept("?i:")) {
    fold = true;
    put("(?:");
  } else if (accept("?-i:")) {
    fold = false;
    put("(?:");
  } else if (starts("?")) {
    const std::string_view kinds[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    const auto kind = std::find_if(std::begin(kinds), std::end(kinds),
                                   [&](std::string_view k) { return accept(k); });
    if (kind == std::end(kinds)) fail(fmt::format("'({}'", pattern_.substr(at_, 3)));
    put(fmt::format("({}", *kind));
  } else {
    put("(?:");  // no match refers to a group
  }
  ignore_case_.push_back(fold);
}

// Reads {n}, {n,}, {,m} or {n,m}.
void ExpressionParser::interval() {
  const size_t end = pattern_.find('}', at_);
  if (end == pattern_.npos) fail("'{' without '}'");
  std::string text(pattern_.substr(at_ + 1, end - at_ - 1));
  const size_t comma = text.find(',');
  if (comma == 0) text.insert(0, 1, '0');
  int value = 0;
  for (const char c : text) {
    if (c == ',') {
      value = 0;
      continue;
    }
    if (c < '0' || c > '9') fail(fmt::format("'{{{}}}'", text));
    value = value * 10 + (c - '0');
    if (value > kMostRepeats) fail(fmt::format("more than {} repetitions", kMostRepeats));
  }
  if (text.empty() || text == "0," || std::count(text.begin(), text.end(), ',') > 1)
    fail(fmt::format("'{{{}}}'", text));
  put(fmt::format("{{{}}}", text));
  at_ = end + 1;
  if (starts("+") || (starts("?") && comma == text.npos)) fail("a quantifier after {…}");
}

bool ExpressionParser::quantifier() {
  if (done()) return false;
  const char c = pattern_[at_];
  if (c == '{') {
    interval();
    if (accept("?")) put("?");
  } else if (c == '*' || c == '+' || c == '?') {
    ++at_;
    put(std::string(1, c));
    if (starts("?") || starts("+")) put(std::string(1, pattern_[at_++]));
  } else {
    return false;
  }
  if (starts("*") || starts("+") || starts("?") || starts("{"))
    fail("a quantifier after a quantifier");
  return true;
}

void ExpressionParser::item() {
  const char32_t before = previous_letter_;
  previous_letter_ = 0;
  if (accept("\\")) {
    previous_letter_ = before;
    const size_t parts = out_.parts.size();
    escape();
    if (out_.parts.size() != parts + 1) previous_letter_ = 0;
  } else if (accept("[")) {
    put(set(0));
  } else if (accept(".")) {
    put(CodeSet('\n', '\n').complement());
  } else if (accept("^")) {
    put("(?:\\A|(?<="), put(CodeSet('\n', '\n')), put(")(?!\\z))");
  } else if (accept("$")) {
    put("(?:\\z|(?="), put(CodeSet('\n', '\n')), put("))");
  } else if (starts("*") || starts("+") || starts("?") || starts("{")) {
    fail("a quantifier without anything before it");
  } else {
    previous_letter_ = before;
    literal(character());
  }
}

ParsedExpression ExpressionParser::run() {
  if (pattern_.size() > kLongestExpression) {
    throw Error("an expression has {} bytes, expected at most {}", pattern_.size(),
                kLongestExpression);
  }
  if (accept("(?i)")) ignore_case_.back() = true;
  while (!done()) {
    if (accept("(")) {
      group();
      previous_letter_ = 0;
      continue;
    }
    if (accept("|")) {
      put("|");
      previous_letter_ = 0;
      continue;
    }
    if (accept(")")) {
      if (ignore_case_.size() == 1) fail("')' without '('");
      ignore_case_.pop_back();
      put(")");
      previous_letter_ = 0;
    } else {
      item();
    }
    if (quantifier()) previous_letter_ = 0;
  }
  if (ignore_case_.size() > 1) fail("'(' without ')'");
  return std::move(out_);
}

}  // namespace

ParsedExpression parse_expression(std::string_view pattern) {
  return ExpressionParser(pattern).run();
}

}  // namespace tessera::data
