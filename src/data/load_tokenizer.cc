// Opens a tokenizer of any supported format.
#include "base/error.h"
#include "base/file.h"
#include "base/wire_message.h"
#include "data/bpe_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"

namespace tessera::data {
namespace {

constexpr const char* kModelNames[] = {"tokenizer.model", "spiece.model"};

}  // namespace

bool is_tokenizer_json(std::string_view bytes) {
  // The first character other than white space decides. A SentencePiece model begins with a field
  // tag and a length, never with '{'.
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{';
}

Path tokenizer_file(const Path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  // If a folder has both, tokenizer.json is a conversion of the .model file.
  for (const char* name : kModelNames)
    if (std::filesystem::exists(path / name) && begins_with_field_1(read_file(path / name)))
      return path / name;
  if (std::filesystem::exists(path / "tokenizer.json")) return path / "tokenizer.json";
  for (const char* name : kModelNames)
    if (std::filesystem::exists(path / name)) return path / name;
  throw Error("{}: has no tokenizer, expected tokenizer.json, tokenizer.model or spiece.model",
              path.string());
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view bytes, const std::string& source) {
  refuse_lfs_pointer(bytes, source);
  if (!is_tokenizer_json(bytes) && !source.ends_with(".json")) {
    if (!begins_with_field_1(bytes))
      throw Error(
          "{}: is not a tokenizer: a tokenizer.json begins with '{{', a SentencePiece model with "
          "its first piece. Give a file written by `tessera tokenizer train` or Hugging Face.",
          source);
    return std::make_unique<SentencePieceTokenizer>(bytes, source);
  }
  const BpeDescription bpe = read_tokenizer_json(bytes, source);
  return std::make_unique<BpeTokenizer>(bpe, hash_bytes(bytes), source);
}

std::unique_ptr<Tokenizer> load_tokenizer(const Path& path) {
  const Path file = tokenizer_file(path);
  return make_tokenizer(read_file(file), file.string());
}

}  // namespace tessera::data
