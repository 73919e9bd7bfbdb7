// The input is the length of a text (one byte), the text, and a SentencePiece model. The model
// gives a tokenizer or an Error; a tokenizer encodes the text, alike at once and in two pieces.
#include "base/error.h"
#include "data/sentencepiece_tokenizer.h"

namespace tessera {
namespace {

void check_encoding(const SentencePieceTokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  CHECK(ids == tokenizer.encode(text), "encoded otherwise the second time");
  tokenizer.decode(ids);
  if (const size_t cut = tokenizer.last_cut(text); cut > 0) {
    std::vector<int32_t> parts = tokenizer.encode(text.substr(0, cut));
    const std::vector<int32_t> rest = tokenizer.encode(text.substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == ids, "cutting at {} changes the ids", cut);
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  const size_t length = std::min<size_t>(data[0], size - 1);
  const std::string text(input.substr(1, length));
  try {
    check_encoding(SentencePieceTokenizer(input.substr(1 + length), "input"), text);
  } catch (const Error&) {
  }
  return 0;
}
