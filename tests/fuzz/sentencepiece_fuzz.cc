// The input is the length of a text (one byte), the text, and a SentencePiece model. The model
// gives a tokenizer or an Error; a tokenizer encodes the text, alike at once and in two pieces.
#include <random>

#include "base/error.h"
#include "base/wire_message.h"
#include "data/sentencepiece_tokenizer.h"
#include "tests/fuzz/custom_mutator.h"

namespace tessera {
namespace {

void check_encoding(const data::SentencePieceTokenizer& tokenizer, const std::string& text) {
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
    check_encoding(data::SentencePieceTokenizer(input.substr(1 + length), "input"), text);
  } catch (const Error&) {
  }
  return 0;
}

// Adds a piece of some length to a model, or changes bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace tessera;
  if (seed % 8 != 0 || size == 0) return LLVMFuzzerMutate(data, size, most);
  constexpr size_t kLengths[] = {1, 2, 3, 17, 64, 511, 512, 513, 4'000, 70'000, 300'000};
  std::mt19937 random(seed);
  const auto length = kLengths[random() % std::size(kLengths)];
  const auto first = static_cast<char>('a' + random() % 26);
  std::string text(length, first), piece, all(reinterpret_cast<const char*>(data), size);
  text.back() = static_cast<char>('a' + random() % 26);
  append_wire_bytes(piece, 1, text);
  append_wire_float(piece, 2, -static_cast<float>(random() % 20));
  append_wire_varint(piece, 3, 1 + random() % 6);
  append_wire_bytes(all, 1, piece);
  return put_mutated(all, data, size, most);
}
