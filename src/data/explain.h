// Traces a sample to its origin: documents, bytes of their text, and source files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset_about.h"
#include "data/indexed_dataset.h"
#include "data/samples.h"
#include "data/tokenizer.h"

namespace tessera::data {

struct PieceOrigin {
  SamplePiece piece;
  int64_t document = 0;         // number of the document in the dataset, from 0
  int64_t document_tokens = 0;  // tokens of its sequence
  // The tokens represent the bytes [text_from, text_to) of the document. `text` is these bytes as
  // decoded by the tokenizer, so they may differ from the source if it normalizes text (NFC).
  int64_t text_from = 0, text_to = 0;
  std::string text;
  // Read from PREFIX.json, if there is one.
  std::string source;            // the source file
  int64_t source_document = -1;  // number of the document in that file, from 0
  // Found by reading the source file again; 0 and −1 if that was not requested or not possible.
  int64_t line = 0, offset = -1;
};

// Returns the origins of the pieces of a sample. Without a tokenizer, `text` stays empty. With
// `locate`, source files are read up to the last document needed; missing files are skipped.
std::vector<PieceOrigin> explain(const IndexedDataset& data, const std::vector<SamplePiece>& pieces,
                                 const std::optional<DatasetInfo>& about,
                                 const Tokenizer* tokenizer, bool locate);

}  // namespace tessera::data
