// The text of one line of a JSON-lines file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// A parser that is used for one line after the other. Lines that simdjson takes go through it; the
// others go through a slower reader of our own, which says where the mistake is and which lets
// pass what is text but no UTF-8: invalid bytes and lone surrogates (\ud800, as the three bytes
// that stand for it) come through as they are, so that nothing is lost.
class JsonLineParser {
 public:
  explicit JsonLineParser(std::string key);
  ~JsonLineParser();
  JsonLineParser(const JsonLineParser&) = delete;
  JsonLineParser& operator=(const JsonLineParser&) = delete;

  // Puts the string that `key` holds in the object `line` into `out`. Throws Error that starts
  // with "`place`:<column>: " (columns are characters from 1) for what is no JSON, no object, has
  // no such key or holds something else there. `line` is padded here, hence no const.
  void parse(std::string& line, const std::string& place, std::string& out);

 private:
  struct Parser;
  std::string key_;
  std::unique_ptr<Parser> parser_;
};

// ---- A strict reader of one JSON value that finds the byte of a mistake. It is the slow path
// of JsonLineParser: bytes in strings need not be UTF-8.

struct JsonScan {
  size_t error_at = 0;            // byte from 0, of `error` or of the value that `found` names
  std::string error;              // empty: the line is JSON
  bool object = false;            // … and an object
  bool has_key = false;           // the key was found
  std::string found;              // what the key holds: "string", "number", "list", …
  std::string text;               // if it is a string
  std::vector<std::string> keys;  // of the object, the first few
};

JsonScan scan_json(std::string_view line, std::string_view key);

}  // namespace tessera::data
