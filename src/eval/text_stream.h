// Turns generated ids into text that can be shown while it is generated: complete characters only,
// and nothing that may become a stop text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace tessera::eval {

class TextStream {
 public:
  // `before`: the ids in front of the text, which are decoded with its first ids: some decoders
  // remove the space at the start of what they decode. `stops`: texts that end the stream and are
  // not part of it. `special`: whether special tokens are shown by name. One that is not shown ends
  // the stream if its name is a stop text. The tokenizer must outlive the stream.
  TextStream(const data::Tokenizer& tokenizer, std::span<const int32_t> before,
             std::vector<std::string> stops = {}, bool special = false);

  // Adds a token and returns the text that is now final; often empty.
  std::string add(int32_t id);
  // Returns whether a stop text has appeared. Nothing is added after that.
  bool stopped() const { return stopped_; }
  // Returns the rest of the text. The bytes of a character that was not completed become U+FFFD.
  std::string finish();
  // Returns how many characters of the text are before the token that was added last. If that token
  // continues a character, this one is not counted.
  int64_t offset() const { return offset_; }

 private:
  std::string decoded();
  std::string without_stops(bool last);

  const data::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  bool special_, stopped_ = false;
  std::vector<int32_t> ids_;  // the end of the text, from the first id that is decoded again
  size_t shown_ = 0;          // the first ids of ids_ whose text was returned by decoded()
  int64_t characters_ = 0;    // those that decoded() returned
  int64_t offset_ = 0;
  std::string pending_;  // complete characters that may begin a stop text
};

// Returns `text` with each byte that is not part of a UTF-8 character replaced by U+FFFD.
std::string as_utf8(std::string_view text);

// Returns the number of bytes at the end of `text` that begin a UTF-8 character and do not complete
// it: 0 to 3.
size_t incomplete_bytes(std::string_view text);

// Returns the length of the longest end of `text` that is a proper beginning of one of the texts.
size_t begun_stop(std::string_view text, const std::vector<std::string>& stops);

}  // namespace tessera::eval
