// The input is a tokenizer.json, a zero byte, and a text. The file gives a tokenizer or an Error; a
// tokenizer encodes the text alike at once and in two pieces, and a byte-level one without losing a
// byte of it.
#include "base/error.h"
#include "data/bpe_tokenizer.h"
#include "tests/base/tree_mutator.h"
#include "tests/fuzz/custom_mutator.h"

namespace tessera {
namespace {

std::string without_added_tokens(const std::string& text, data::BpeDescription bpe) {
  bpe.added_tokens.clear();
  bpe.normalizer.clear();
  bpe.splits.clear();
  bpe.add_prefix_space = false;
  const data::BpeTokenizer tokenizer(bpe, 1, "input");
  data::EncodeCache cache(1 << 16);
  data::EncodeReport report;
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids, cache, &report);
  return report.replaced_bytes > 0 ? text : tokenizer.decode(ids);
}

void check_encoding(const std::string& text, const data::BpeDescription& bpe) {
  const data::BpeTokenizer tokenizer(bpe, 2, "input");
  const std::vector<int32_t> ids = tokenizer.encode(text);
  for (const int32_t id : ids) tokenizer.token_bytes(id);
  tokenizer.decode(ids);
  if (const size_t cut = tokenizer.last_cut(text); cut > 0) {
    std::vector<int32_t> parts = tokenizer.encode(text.substr(0, cut));
    const std::vector<int32_t> rest = tokenizer.encode(text.substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == ids, "cutting at {} changes the ids", cut);
  }
  if (!bpe.byte_level) return;
  const std::string back = without_added_tokens(text, bpe);
  CHECK(back == text, "{} bytes came back as {}", text.size(), back.size());
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string text(input.substr(std::min(end + 1, input.size())));
  try {
    const data::BpeDescription bpe = data::read_tokenizer_json(input.substr(0, end), "input");
    check_encoding(text, bpe);
    const bool nfc = bpe.normalizer == std::vector<data::NormalizerStep>{{}};
    if (!bpe.byte_level || !bpe.splits.empty() || !(nfc || bpe.normalizer.empty())) return 0;
    const data::BpeDescription again =
        data::read_tokenizer_json(data::write_tokenizer_json(bpe), "output");
    CHECK(again.merges == bpe.merges && again.vocabulary == bpe.vocabulary, "written otherwise");
  } catch (const Error&) {
  }
  return 0;
}

// Mostly values of the file are changed, else bytes of it or of the text.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace tessera;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    Tree tree = parse_json(input.substr(0, end), "input");
    TreeMutator(seed).change(tree);
    return put_mutated(to_json(tree).append(input.substr(end)), data, size, most);
  } catch (const Error&) {
    return LLVMFuzzerMutate(data, size, most);
  }
}
