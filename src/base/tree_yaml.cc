// Parses YAML 1.2 with yaml-cpp's event interface and builds a tree with the line and column of
// every value; also writes YAML. Plain scalars follow the core schema (YAML 1.2.2, section 10.3),
// except that octal and hexadecimal numbers and the capitalized forms of .inf and .nan are text.
// Aliases and tags are rejected: a run file does not need them, and nested aliases can expand
// exponentially.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "base/tree.h"
#include "base/utf8.h"

namespace tessera {
namespace {

constexpr size_t kMaxDepth = 256;
constexpr size_t kMaxKey = 128;  // YAML limits keys to 1,024 characters, escapes included

bool is_number(std::string_view s) {  // YAML 1.2 core schema: [-+]? digits [. digits] [e…]
  size_t i = s.starts_with('-') || s.starts_with('+') ? 1 : 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i;
    return i - from;
  };
  size_t mantissa = digits();
  if (i < s.size() && s[i] == '.') {
    ++i;
    mantissa += digits();
  }
  if (mantissa == 0) return false;
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == s.size();
}

Tree plain_scalar(const std::string& s) {
  if (s.empty() || s == "~" || s == "null" || s == "Null" || s == "NULL") return Tree();
  if (s == "true" || s == "True" || s == "TRUE") return Tree(true);
  if (s == "false" || s == "False" || s == "FALSE") return Tree(false);
  if (s == ".inf" || s == "+.inf") return Tree(std::numeric_limits<double>::infinity());
  if (s == "-.inf") return Tree(-std::numeric_limits<double>::infinity());
  if (s == ".nan") return Tree(std::numeric_limits<double>::quiet_NaN());
  if (!is_number(s)) return Tree(s);
  const char* begin = s.data() + (s[0] == '+' ? 1 : 0);
  const char* end = s.data() + s.size();
  int64_t whole = 0;
  // An integer that does not fit into int64 becomes a double below. `begin` skips a leading '+',
  // which from_chars does not accept.
  if (std::from_chars(begin, end, whole).ptr == end && s.find_first_of(".eE") == s.npos &&
      std::from_chars(begin, end, whole).ec == std::errc())
    return Tree(whole);
  double x = 0;
  const auto read = std::from_chars(begin, end, x);
  if (read.ec == std::errc::result_out_of_range) return Tree(s);  // 1e999 is not a double
  return Tree(x);
}

// Converts the library's positions, which count lines and bytes from 0 and are negative if unknown,
// to lines and columns in characters from 1.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text), starts_{0} {
    for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
      starts_.push_back(at + 1);
  }
  int line(const YAML::Mark& mark) const { return mark.line + 1; }
  // Returns true if the position is past the end of the text.
  bool is_past_end(const YAML::Mark& mark) const {
    const auto line = static_cast<size_t>(std::max(mark.line, 0));
    return line >= starts_.size() || (line + 1 == starts_.size() && starts_[line] == text_.size());
  }
  int column(const YAML::Mark& mark) {
    const auto line = static_cast<size_t>(mark.line);
    if (mark.line < 0 || mark.column < 0 || line >= starts_.size()) return mark.column + 1;
    const size_t begin = starts_[line], to = begin + static_cast<size_t>(mark.column);
    // A position before the last one, or on another line, restarts the count at the beginning of
    // its line.
    if (counted_to_ < begin || counted_to_ > to) {
      counted_to_ = begin;
      characters_ = 0;
    }
    if (to > counted_to_ && counted_to_ < text_.size())
      characters_ += count_characters(text_.substr(counted_to_, to - counted_to_));
    counted_to_ = to;
    return static_cast<int>(characters_) + 1;
  }

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
  // Events arrive in the order of the text. The characters of the current line are counted
  // incrementally, so the time for a long line is linear.
  size_t counted_to_ = 0, characters_ = 0;
};

// Returns the text of a scalar as UTF-8. yaml-cpp writes the escapes \_ and \N (U+00A0, U+0085) as
// single bytes of Latin-1. The document was valid UTF-8, so every invalid byte comes from these,
// and U+0080 to U+00BF are encoded as 0xC2 and the same byte.
std::string repaired_utf8(const std::string& s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const size_t n = utf8_length(s, i);
    if (n > 0)
      out.append(s, i, n);
    else
      out.append({'\xc2', s[i]});
    i += std::max<size_t>(n, 1);
  }
  return out;
}

// Returns what is wrong with a text that is not YAML; `at_end`: the error is past its end.
std::string reason_of(const YAML::Exception& e, bool at_end) {
  // The appended marker is past the end of the text, so this error means an unterminated quote.
  if (e.msg == YAML::ErrorMsg::DOC_IN_SCALAR && at_end) return "a quoted text has no end";
  if (e.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR)
    return "write a text that begins with '*' in quotes, such as \"*.attn.*\"";
  if (e.msg == YAML::ErrorMsg::UNKNOWN_TOKEN)
    return "write a text that begins with '@', '`' or '%' in quotes";
  return e.msg;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& source, Lines& lines) : source_(source), lines_(lines) {}
  Tree take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(placed(Tree(), mark)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark,
         "aliases (*name) are not supported. Repeat the value, or write a text that begins "
         "with '*' in quotes, such as \"*.attn.*\".");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& bytes) override {
    const std::string text = repaired_utf8(bytes);
    // The library passes the tag "?" for a plain scalar and "!" for a quoted one.
    const bool plain = tag == "?" || tag.empty();
    if (!plain && tag != "!")
      fail(mark, fmt::format("the tag {} is not supported. Remove it.", tag));
    Level* level = open_.empty() ? nullptr : &open_.back();
    // Keys and values of a mapping arrive alternately, as the same kind of event.
    if (level != nullptr && level->tree.as_members() != nullptr && !level->has_key) {
      take_key(*level, mark, text);
      return;
    }
    add(placed(plain ? plain_scalar(text) : Tree(text), mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(Tree::list(), mark);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(Tree::object(), mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Tree tree;
    std::string key;
    bool has_key = false;
    int key_line = 0, key_column = 0;
    std::unordered_set<std::string> names = {};
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw Error("{}:{}:{}: {}", source_, lines_.line(mark), lines_.column(mark), what);
  }

  // YAML 1.2 forbids duplicate keys, but the library accepts them; the last one would win silently.
  void take_key(Level& level, const YAML::Mark& mark, const std::string& name) const {
    if (name.size() > kMaxKey)
      fail(mark, fmt::format("a key of {} bytes, expected at most {}.", name.size(), kMaxKey));
    if (!level.names.insert(name).second)
      fail(mark, fmt::format("duplicate key '{}' in this object. Remove one of them.", name));
    level.key = name;
    level.has_key = true;
    level.key_line = lines_.line(mark);
    level.key_column = lines_.column(mark);
  }

  Tree placed(Tree t, const YAML::Mark& mark) const {
    t.line = lines_.line(mark);
    t.column = lines_.column(mark);
    if (!open_.empty() && open_.back().has_key) {
      t.key_line = open_.back().key_line;
      t.key_column = open_.back().key_column;
    }
    return t;
  }

  void open(Tree t, const YAML::Mark& mark) {
    if (!open_.empty() && open_.back().tree.as_members() != nullptr && !open_.back().has_key)
      fail(mark, "a key must be a plain name.");
    if (open_.size() == kMaxDepth)
      fail(mark, fmt::format("nested more than {} levels deep", kMaxDepth));
    open_.push_back({placed(std::move(t), mark), {}, false, 0, 0, {}});
  }

  void close() {
    Tree t = std::move(open_.back().tree);
    open_.pop_back();
    add(std::move(t));
  }

  void add(Tree t) {
    if (open_.empty()) {
      root_ = std::move(t);
      return;
    }
    Level& level = open_.back();
    auto* members = std::get_if<Tree::Members>(&level.tree.value);
    if (members == nullptr) {
      level.tree.push(std::move(t));
    } else if (level.has_key) {
      members->emplace_back(std::move(level.key), std::move(t));
      level.has_key = false;
    } else {
      throw Error("{}:{}:{}: a key is missing here.", source_, t.line, t.column);
    }
  }

  const std::string& source_;
  Lines& lines_;
  std::vector<Level> open_;
  Tree root_;
};

// Returns true if the text can be written without quotes and is read back as the same text. The
// rule is stricter than that of YAML, so that it needs no cases for special characters.
bool stays_plain(const std::string& s) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
  };
  const auto inside = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
  };
  return !s.empty() && (letter(s[0]) || (s[0] >= '0' && s[0] <= '9')) &&
         std::all_of(s.begin(), s.end(), inside) && plain_scalar(s).as_string() != nullptr;
}

std::string scalar_text(const Tree& t) {
  const std::string* s = t.as_string();
  if (s != nullptr && stays_plain(*s)) return *s;
  const auto* x = std::get_if<double>(&t.value);
  if (x != nullptr && std::isnan(*x)) return ".nan";
  if (x != nullptr && std::isinf(*x)) return *x > 0 ? ".inf" : "-.inf";
  std::string text = to_json(t);  // a JSON scalar is YAML
  // Readers of YAML 1.1, such as PyYAML, read a number without a point as text.
  if (const size_t e = text.find('e');
      x != nullptr && e != text.npos && text.find('.') == text.npos)
    text.insert(e, ".0");
  return text;
}

bool is_scalar(const Tree& t) {
  const auto* list = t.as_list();
  const auto* members = t.as_members();
  return (list == nullptr || list->empty()) && (members == nullptr || members->empty());
}

void append_yaml(std::string& out, const Tree& t, size_t indent);

// Appends the value after "key:" or "-": on the same line if it is a scalar or a list of scalars,
// otherwise indented on the next lines.
void append_value(std::string& out, const Tree& t, size_t indent, bool in_list) {
  const auto* list = t.as_list();
  // An empty list or object counts as a scalar: [] and {} are written on the line.
  if (is_scalar(t)) {
    out += ' ' + scalar_text(t) + '\n';
  } else if (list != nullptr && std::all_of(list->begin(), list->end(), is_scalar)) {
    out += " [";
    for (const Tree& e : *list) out += (&e == list->data() ? "" : ", ") + scalar_text(e);
    out += "]\n";
  } else if (in_list) {  // "- key: value", with the other members below it
    // The first line of the element follows the "- ", which replaces its indentation.
    std::string inner;
    append_yaml(inner, t, indent + 2);
    out += ' ' + inner.substr(indent + 2);
  } else {
    out += '\n';
    append_yaml(out, t, indent + 2);
  }
}

void append_yaml(std::string& out, const Tree& t, size_t indent) {
  const std::string margin(indent, ' ');
  if (const auto* members = t.as_members(); members != nullptr && !members->empty()) {
    for (const auto& [name, member] : *members) {
      out += margin + (stays_plain(name) ? name : to_json(Tree(name))) + ':';
      append_value(out, member, indent, false);
    }
  } else if (const auto* list = t.as_list(); list != nullptr && !list->empty()) {
    for (const Tree& e : *list) {
      out += margin + '-';
      append_value(out, e, indent, true);
    }
  } else {
    out += margin + scalar_text(t) + '\n';
  }
}

// Throws Error for the first byte that is not UTF-8, because repaired_utf8() requires it.
void require_utf8(std::string_view text, const std::string& source) {
  int line = 1, column = 1;
  for (size_t i = 0; i < text.size(); ++column) {
    const size_t n = utf8_length(text, i);
    if (n == 0 || text[i] == '\0')
      throw Error("{}:{}:{}: found byte 0x{:02x}, expected text in UTF-8", source, line, column,
                  static_cast<unsigned char>(text[i]));
    if (text[i] == '\n') {
      ++line;
      column = 0;
    }
    i += n;
  }
}

// Returns the text with a document end marker ("...") appended if its last line is blank. Without
// it, the library accepts the end of the file as the end of an unterminated quoted text.
std::string with_end(std::string_view text) {
  std::string out(text);
  if (text.empty() || text.find_last_not_of(" \t\r\n") + 1 == text.size()) return out;
  return out + (text.ends_with('\n') ? "...\n" : "\n...\n");
}

}  // namespace

Tree parse_yaml(std::string_view text, const std::string& source) {
  text = without_byte_order_mark(text);
  require_utf8(text, source);
  Lines lines(text);
  std::istringstream in{with_end(text)};
  try {
    YAML::Parser parser(in);
    TreeBuilder builder(source, lines);
    parser.HandleNextDocument(builder);
    Tree tree = builder.take();
    TreeBuilder second(source, lines);
    if (parser.HandleNextDocument(second)) {
      const Tree rest = second.take();
      throw Error("{}:{}:{}: a second document starts here. One file holds one document.", source,
                  rest.line, rest.column);
    }
    return tree;
  } catch (const YAML::Exception& e) {
    throw Error("{}:{}:{}: this is not YAML: {}", source, lines.line(e.mark), lines.column(e.mark),
                reason_of(e, lines.is_past_end(e.mark)));
  }
}

std::string to_yaml(const Tree& t) {
  std::string out;
  append_yaml(out, t, 0);
  return out;
}

}  // namespace tessera
