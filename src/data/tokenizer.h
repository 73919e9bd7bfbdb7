// Converts text to token ids and back. A Tokenizer is immutable after it is loaded: any number of
// threads may encode with it, each with its own EncodeCache.
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

// Counts of encode(); one report may cover many texts.
// A byte that is not part of a valid UTF-8 sequence is encoded as itself, so nothing is lost. It is
// replaced by U+FFFD, and counts as replaced, only with SentencePiece or if the vocabulary has no
// token for the byte (GPT-NeoX-20B lacks the 13 bytes that UTF-8 never uses).
struct EncodeReport {
  int64_t bytes = 0;           // bytes of all texts
  int64_t invalid_bytes = 0;   // bytes that are not UTF-8
  int64_t replaced_bytes = 0;  // invalid bytes that were encoded as U+FFFD
  int64_t first_invalid = -1;  // offset of the first one, counted over all texts; -1: none

  void add(const EncodeReport& later);  // adds the report of texts that follow these
};

// Returns the report of a text without `replaced_bytes`, which depends on the tokenizer.
EncodeReport utf8_report(std::string_view text);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `ids`. No token is added at the beginning or the end.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
                      EncodeReport* report = nullptr) const = 0;

  // Returns the bytes that a token represents; for a special token, its name. Empty for an unused
  // id within the vocabulary. Throws Error for an id outside the vocabulary.
  virtual std::string_view token_bytes(int32_t id) const = 0;

  // Returns the largest id, including those of special tokens, plus one.
  virtual int32_t vocabulary_size() const = 0;

  // Returns the token that separates documents, such as <|endoftext|> or </s>.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // Returns the token that the tokenizer's template puts before a text: LLaMA 3's
  // <|begin_of_text|>.
  virtual std::optional<int32_t> text_begin() const { return std::nullopt; }

  // Returns the token that the tokenizer's template puts after an encoder input: T5's </s>.
  virtual std::optional<int32_t> source_end() const { return std::nullopt; }

  // Returns true if the id is not ordinary text: an added token that is marked as special, such as
  // <|im_end|>, or a control, unknown or unused piece of a SentencePiece model.
  virtual bool is_special(int32_t) const { return false; }

  // Returns the number of sentinels for span corruption. They have the largest ids, with
  // <extra_id_0> last. 0: there are none.
  virtual int32_t sentinels() const { return 0; }

  // Returns the last position p, 0 < p < text.size(), at which the text can be split so that the
  // ids of the two parts, concatenated, are those of the whole, whatever follows the text. 0: there
  // is none. For texts that are encoded in pieces, because they are long or for several threads.
  virtual size_t last_cut(std::string_view text) const = 0;

  // Returns a hash of the tokenizer file; tokenizers with the same fingerprint encode identically.
  virtual uint64_t fingerprint() const = 0;

  std::vector<int32_t> encode(std::string_view text) const;  // with a temporary cache

  // Returns the text of a sequence of ids, which may end inside a character. A tokenizer.json whose
  // decoder removes a space in front of the text omits it here, but not in token_bytes().
  virtual std::string decode(std::span<const int32_t> ids) const;
};

// Encodes many texts with one thread per cache; ids[i] are those of texts[i]. Long texts are
// divided among threads. Adds to `report` in the order of the texts.
void encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                  std::span<EncodeCache> caches, std::vector<std::vector<int32_t>>& ids,
                  EncodeReport* report = nullptr);

// Returns true if the bytes of a tokenizer file are a tokenizer.json; otherwise they are a
// SentencePiece model.
bool is_tokenizer_json(std::string_view bytes);

// Returns the tokenizer file of a path: the path itself, or for a folder its tokenizer.model or
// spiece.model, if that is a SentencePiece model, otherwise its tokenizer.json. Throws Error if a
// folder has none.
Path tokenizer_file(const Path& path);
// Reads a tokenizer.json with BPE (GPT-2, LLaMA, Qwen, Gemma, …; as written by `tokenizer train`)
// or a SentencePiece model. Throws Error with the location if the file is damaged or has another
// format.
std::unique_ptr<Tokenizer> load_tokenizer(const Path& path);
// Creates a tokenizer from the bytes of such a file; `source` names it in errors.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view bytes, const std::string& source);

}  // namespace tessera::data
