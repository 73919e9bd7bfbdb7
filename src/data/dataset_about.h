// The description of a dataset in PREFIX.json: tokenizer, sources and counts. Megatron has no such
// file. Without it, a dataset can be used, but its sources and tokenizer are unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/tokenizer.h"

namespace tessera::data {

struct SourceInfo {
  std::string name;  // the file name as given by the user; "-" is standard input
  int64_t documents = 0, tokens = 0;
  int64_t text_bytes = 0;  // bytes of the documents' text before encoding
};

struct DatasetInfo {
  std::string tokenizer;               // the file name as given by the user
  uint64_t tokenizer_fingerprint = 0;  // Tokenizer::fingerprint()
  int64_t vocabulary = 0;
  // hash_token_texts() of the vocabulary; nullopt: built by a version that did not store it.
  std::optional<uint64_t> token_texts;
  std::optional<int32_t> end_of_text;  // the token after each document; nullopt: none was added
  int64_t documents = 0;
  int64_t tokens = 0;      // number of tokens, including end-of-text tokens
  int64_t text_bytes = 0;  // the denominator of bits per byte
  int64_t invalid_bytes = 0;
  std::string first_invalid;        // description of the first one's location; empty: none
  std::string split, format, key;   // settings of DocumentOptions, by name
  std::vector<SourceInfo> sources;  // in the order of the documents
};

std::string to_json(const DatasetInfo& about);

// Reads PREFIX.json; nullopt: there is none. Throws Error if it is damaged, or if its numbers of
// documents and tokens are not those of the dataset.
std::optional<DatasetInfo> read_about(const IndexedDataset& data);

// Returns the reason why the dataset must not be read with `tokenizer` (called `name` in the
// reason): by PREFIX.json it was built with another tokenizer, whose ids represent different texts.
// Returns an empty string if the dataset may be read.
std::string foreign_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer,
                              const std::string& name);

}  // namespace tessera::data
