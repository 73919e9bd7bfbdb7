// What stands in PREFIX.json beside a dataset: where its tokens came from. Megatron knows no such
// file; without it everything works but what only it can tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/tokenizer.h"

namespace tessera::data {

struct SourceAbout {
  std::string name;  // the file as it was named; "-" is standard input
  int64_t documents = 0, tokens = 0;
  int64_t text_bytes = 0;  // of the documents, before they were encoded
};

struct DatasetAbout {
  std::string tokenizer;               // the file as it was named
  uint64_t tokenizer_fingerprint = 0;  // Tokenizer::fingerprint()
  int64_t vocabulary = 0;
  // hash_token_texts() of the vocabulary; nothing: built by a version that did not store it.
  std::optional<uint64_t> token_texts;
  std::optional<int32_t> end_of_text;  // the token behind each document; nothing: none was added
  int64_t documents = 0;
  int64_t tokens = 0;      // end-of-text tokens included
  int64_t text_bytes = 0;  // what bits per byte divide by
  int64_t invalid_bytes = 0;
  std::string first_invalid;         // where, in words; empty: none
  std::string split, format, key;    // of DocumentOptions, by name
  std::vector<SourceAbout> sources;  // in the order of the documents
};

std::string to_json(const DatasetAbout& about);

// PREFIX.json, or nothing where there is none. Throws Error if it is damaged or describes other
// documents and tokens than the dataset has.
std::optional<DatasetAbout> read_about(const IndexedDataset& data);

// Returns why the dataset must not be read with `tokenizer` (`name` in the text): PREFIX.json names
// another one as its maker, and its ids stand for other texts. The text has both with their
// fingerprints. Returns an empty string if the dataset may be read.
std::string foreign_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer,
                              const std::string& name);

}  // namespace tessera::data
