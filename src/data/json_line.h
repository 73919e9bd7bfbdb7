// The text of one line of a JSON-lines file.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

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

}  // namespace tessera
