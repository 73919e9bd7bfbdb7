// Parses JSON with nlohmann-json's event (SAX) interface and builds a tree with the line and column
// of every value. The events have no positions, so the parser reads through an iterator that
// records its position, and the start of a token is found from the end of the previous token.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/tree.h"
#include "base/utf8.h"

namespace tessera {
namespace {

constexpr size_t kMaxDepth = 256;

// An input iterator that records the position of the parser in `*seen`.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** seen_;
};

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, const std::string& source, int first_line)
      : text_(text),
        source_(source),
        seen_(text.data()),
        scanned_(text.data()),
        line_(first_line) {}

  Tree parse() {
    const char* begin = text_.data();
    const CountingIterator first(begin, &seen_), last(begin + text_.size(), &seen_);
    nlohmann::json::sax_parse(first, last, this);
    return std::move(root_);
  }

  bool null() override { return add(Tree()); }
  bool boolean(bool x) override { return add(Tree(x)); }
  bool number_integer(number_integer_t x) override { return add(Tree(int64_t{x})); }
  // Integers above 2^63 - 1 become doubles, as in the YAML reader.
  bool number_unsigned(number_unsigned_t x) override {
    const bool fits = x <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return add(fits ? Tree(static_cast<int64_t>(x)) : Tree(static_cast<double>(x)));
  }
  bool number_float(number_float_t x, const string_t&) override { return add(Tree(x)); }
  bool string(string_t& x) override { return add(Tree(std::move(x))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Tree::object()); }
  bool start_array(size_t) override { return open(Tree::list()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = open_.back();
    find_place(&level.key_line, &level.key_column);
    if (!level.names.insert(name).second)
      throw Error("{}:{}:{}: duplicate key '{}' in this object. Remove one of them.", source_,
                  level.key_line, level.key_column, name);
    level.key = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) override {
    const char* end = text_.data() + text_.size();
    // At an error the parser has already read the invalid character, except at the end of the text.
    advance(std::min(std::max(seen_ - (seen_ == end ? 0 : 1), scanned_), end));
    std::string reason = e.what();  // "[json.exception…] parse error at line 1, column 2: why"
    const size_t colon = reason.find(": ");
    if (colon != std::string::npos) reason.erase(0, colon + 2);
    // The reason quotes the token, which may have megabytes.
    if (constexpr size_t kMost = 200; reason.size() > kMost)
      reason = printable(reason.substr(0, kMost)) + " …";
    throw Error("{}:{}:{}: this is not JSON: {}", source_, line_, column_, reason);
  }

 private:
  struct Level {
    Tree tree;
    std::string key;
    int key_line = 0, key_column = 0;
    std::unordered_set<std::string> names;
  };

  // Advances (line_, column_) to the character `to`. Every character is scanned once, so positions
  // cost O(size) in total. Columns count characters: continuation bytes of UTF-8 (10xxxxxx) are
  // skipped.
  void advance(const char* to) {
    for (; scanned_ < to; ++scanned_) {
      if (*scanned_ == '\n') {
        ++line_;
        column_ = 1;
      } else if ((static_cast<unsigned char>(*scanned_) & 0xc0) != 0x80) {
        ++column_;
      }
    }
  }

  // Finds the position of the token just read: the first character after the previous token that is
  // neither white space nor a separator. (After a number the parser has read one character more,
  // which is white space or a separator.)
  void find_place(int* line, int* column) {
    const char* p = token_end_ == nullptr ? text_.data() : token_end_;
    while (p < seen_ && std::string_view(" \t\r\n,:").find(*p) != std::string_view::npos) ++p;
    advance(p);
    *line = line_;
    *column = column_;
    token_end_ = seen_;
  }

  bool place(Tree& t) {
    find_place(&t.line, &t.column);
    if (!open_.empty()) {
      t.key_line = open_.back().key_line;
      t.key_column = open_.back().key_column;
    }
    return true;
  }

  bool add(Tree t) {
    // A list or an object received its position when it was opened.
    if (t.line == 0) place(t);
    if (open_.empty()) {
      root_ = std::move(t);
    } else if (auto* members = std::get_if<Tree::Members>(&open_.back().tree.value)) {
      members->emplace_back(std::move(open_.back().key), std::move(t));
    } else {
      open_.back().tree.push(std::move(t));
    }
    return true;
  }

  bool open(Tree t) {
    place(t);
    if (open_.size() == kMaxDepth)
      throw Error("{}:{}:{}: nested more than {} levels deep", source_, t.line, t.column,
                  kMaxDepth);
    open_.push_back({std::move(t), {}, 0, 0, {}});
    return true;
  }

  // Adds a list or an object to its parent when it is complete.
  bool close() {
    token_end_ = seen_;
    Tree t = std::move(open_.back().tree);
    open_.pop_back();
    return add(std::move(t));
  }

  std::string_view text_;
  const std::string& source_;
  const char* seen_;                 // end of the text that the parser has read
  const char* token_end_ = nullptr;  // end of the previous token
  const char* scanned_;              // (line_, column_) is the position of this character
  int line_, column_ = 1;
  std::vector<Level> open_;
  Tree root_;
};

}  // namespace

Tree parse_json(std::string_view text, const std::string& source, int first_line) {
  if (text.empty()) throw Error("{}: empty, expected JSON", source);
  return TreeBuilder(without_byte_order_mark(text), source, first_line).parse();
}

std::vector<Tree> parse_json_lines(std::string_view text, const std::string& source) {
  std::vector<Tree> out;
  int number = 0;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find('\n', from), text.size());
    const std::string_view line = text.substr(from, to - from);
    from = to + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") != line.npos)
      out.push_back(parse_json(line, source, number));
  }
  return out;
}

}  // namespace tessera
