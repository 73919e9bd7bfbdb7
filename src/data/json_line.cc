// Reads one text out of a JSON line: simdjson first, which validates and finds the key at several
// GB/s but reports no positions, then a scanner of our own for the lines that it rejects.
#include "data/json_line.h"

#include <simdjson.h>

#include "base/error.h"
#include "base/utf8.h"
#include "data/json_scan.h"

namespace tessera {

struct JsonLineParser::Parser {
  simdjson::dom::parser dom;
};

JsonLineParser::JsonLineParser(std::string key)
    : key_(std::move(key)), parser_(std::make_unique<Parser>()) {}
JsonLineParser::~JsonLineParser() = default;

namespace {

// Throws the Error for a line that simdjson rejected. Returns if it was only not UTF-8.
void slow_path(std::string_view line, const std::string& key, const std::string& place,
               std::string& out) {
  JsonScan scan = scan_json(line, key);
  const auto where = [&](size_t at) {
    return fmt::format("{}:{}", place, count_characters(line.substr(0, at)) + 1);
  };
  if (!scan.error.empty()) throw Error("{}: no valid JSON: {}", where(scan.error_at), scan.error);
  if (!scan.object) {
    throw Error("{}: wanted an object, one a line, as in {{\"{}\": \"…\"}}", where(0), key);
  }
  if (!scan.has_key) {
    std::string has;
    for (const std::string& k : scan.keys) has += (has.empty() ? "'" : ", '") + k + "'";
    throw Error(
        "{}: this object has no key '{}'; it has {}. Name the one that holds the text with "
        "--key",
        where(0), key, has.empty() ? "none" : has);
  }
  if (scan.found != "string") {
    throw Error("{}: key '{}' holds a {}, wanted a string", where(scan.error_at), key, scan.found);
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
  constexpr bool kCopy = false;  // the line is followed by the padding already
  if (parser_->dom.parse(line.data(), size, kCopy)[key_].get(text) == simdjson::SUCCESS) {
    out.assign(text);
  } else {
    slow_path(line, key_, place, out);
  }
}

}  // namespace tessera
