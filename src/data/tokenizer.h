// Text to token ids and back. A Tokenizer never changes after it is loaded: any number of threads
// may encode with it, each with an EncodeCache of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/encode_cache.h"

namespace tessera::data {

// What encode met on its way; one report may collect over many texts.
// A byte that is part of no valid UTF-8 sequence is encoded as itself, so nothing is lost. Only
// where the vocabulary has no token for that byte (GPT-NeoX-20B's lacks the 13 bytes that UTF-8
// never uses), and with SentencePiece, U+FFFD stands for it, and it counts as replaced too.
struct EncodeReport {
  int64_t bytes = 0;           // of all texts
  int64_t invalid_bytes = 0;   // that are no UTF-8
  int64_t replaced_bytes = 0;  // of these, encoded as U+FFFD
  int64_t first_invalid = -1;  // place of the first, counted over all texts; -1: none

  void add(const EncodeReport& later);  // of texts that come after ours
};

// What a text holds that is no UTF-8 (`replaced_bytes` is not known here).
EncodeReport utf8_report(std::string_view text);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `ids`. No token is added at the beginning or the end.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
                      EncodeReport* report = nullptr) const = 0;

  // The bytes that one token stands for; of a special token its name. Throws Error beyond the
  // vocabulary; an id that has no token (a hole) gives nothing.
  virtual std::string_view token_bytes(int32_t id) const = 0;

  // One past the largest id, special tokens included.
  virtual int32_t vocabulary_size() const = 0;

  // What separates documents: <|endoftext|> or </s> among the added tokens.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // What stands before a text by the tokenizer's own rule: LLaMA 3's <|begin_of_text|>.
  virtual std::optional<int32_t> text_begin() const { return std::nullopt; }

  // What stands behind a text that an encoder reads, by the tokenizer's own rule: T5's </s>.
  virtual std::optional<int32_t> source_end() const { return std::nullopt; }

  // Returns true if the id is not ordinary text: an added token that is marked as special, such as
  // <|im_end|>, or a control, unknown or unused piece of a SentencePiece model.
  virtual bool is_special(int32_t) const { return false; }

  // Sentinels of span corruption: the largest ids, <extra_id_0> the last of all. 0: has none.
  virtual int32_t sentinels() const { return 0; }

  // A place 0 < p < text.size() where the text can be cut: the ids of both parts in a row are those
  // of the whole, whatever comes after it. The last such place; 0: none. For texts that are encoded
  // in pieces, because they are long or threads share them.
  virtual size_t last_cut(std::string_view text) const = 0;

  // The same for two tokenizers that encode alike because they come from the same bytes.
  virtual uint64_t fingerprint() const = 0;

  std::vector<int32_t> encode(std::string_view text) const;  // with a cache of its own: for tests
  std::string decode(std::span<const int32_t> ids) const;    // may cut a character in two
};

// The ids of many texts, `ids[i]` those of texts[i]; as many threads as there are caches. Threads
// share long texts too. Adds to `report` in the order of the texts.
void encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                  std::span<EncodeCache> caches, std::vector<std::vector<int32_t>>& ids,
                  EncodeReport* report = nullptr);

// Whether a tokenizer file is a tokenizer.json; else it is a SentencePiece model.
bool is_tokenizer_json(std::string_view bytes);

// Reads a tokenizer.json of the byte-level BPE kind (GPT-2, GPT-NeoX, Qwen2, LLaMA 3; what
// `tokenizer train` writes) or a SentencePiece model. Of a folder its tokenizer.model or
// spiece.model, if that is such a model, else tokenizer.json. Throws Error with the place for a
// file that is damaged or of another kind.
Path tokenizer_file(const Path& path);
std::unique_ptr<Tokenizer> load_tokenizer(const Path& path);
// Makes a tokenizer of the bytes of such a file; `source` names it in errors.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view bytes, const std::string& source);

}  // namespace tessera::data
