// A tokenizer for tests, as the bytes of its file.
#pragma once

#include <string>

#include "base/error.h"

namespace tessera {

// The smallest byte-level tokenizer: 256 bytes and the end of a text.
inline std::string byte_tokenizer() {
  std::string vocabulary;
  int extra = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool kept = (byte >= 33 && byte < 127) || (byte >= 161 && byte != 173);
    const int c = kept ? byte : extra++;
    vocabulary += fmt::format("{}\"\\u{:04x}\":{}", byte == 0 ? "" : ",", c, byte);
  }
  const std::string level =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{{"id":256,"content":)"
      R"("<|endoftext|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,)"
      R"("special":true}}],"normalizer":null,"pre_tokenizer":{0},"post_processor":null,)"
      R"("decoder":{0},"model":{{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
      R"("byte_fallback":false,"vocab":{{{1}}},"merges":[]}}}})",
      level, vocabulary);
}

}  // namespace tessera
