// A strict reader of one JSON value that knows at which byte a mistake is. It is the slow path of
// json_line.h: bytes in strings need not be UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct JsonScan {
  size_t error_at = 0;            // byte from 0, of `error` or of the value that `found` names
  std::string error;              // empty: the line is JSON
  bool object = false;            // … and an object
  bool has_key = false;           // with the wanted key
  std::string found;              // what the key holds: "string", "number", "list", …
  std::string text;               // if it is a string
  std::vector<std::string> keys;  // of the object, the first few
};

JsonScan scan_json(std::string_view line, std::string_view key);

}  // namespace tessera
