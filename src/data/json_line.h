// Extracts the text from one line of a JSON-lines file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// A parser that is reused for many lines. Lines that simdjson accepts are parsed by it. The others
// are parsed by a slower reader, which reports the position of an error and accepts text that is
// not UTF-8: invalid bytes and lone surrogates (\ud800, as the three bytes that encode it) are kept
// as they are, so that nothing is lost.
class JsonLineParser {
 public:
  explicit JsonLineParser(std::string key);
  ~JsonLineParser();
  JsonLineParser(const JsonLineParser&) = delete;
  JsonLineParser& operator=(const JsonLineParser&) = delete;

  // Writes the string under `key` of the object `line` to `out`. Throws Error that starts with
  // "`place`:<column>: " (columns are characters from 1) if the line is not JSON or not an object,
  // or if the key is missing or its value is not a string. `line` is not const because it is
  // padded.
  void parse(std::string& line, const std::string& place, std::string& out);

 private:
  struct Parser;
  std::string key_;
  std::unique_ptr<Parser> parser_;
};

// ---- A strict reader of one JSON value that finds the byte of an error. It is the slow path of
// JsonLineParser: bytes in strings need not be UTF-8.

struct JsonScan {
  size_t error_at = 0;   // offset in bytes of `error`, or of the value under the key
  std::string error;     // empty: the line is JSON
  bool object = false;   // true if the value is an object
  bool has_key = false;  // true if the object has the key
  std::string found;     // kind of the value under the key: "string", "number", "list", …
  std::string text;      // the value under the key if it is a string
  std::vector<std::string> keys;  // the first few keys of the object
};

JsonScan scan_json(std::string_view line, std::string_view key);

}  // namespace tessera::data
