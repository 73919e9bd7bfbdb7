// Where a sample came from: which documents, which of their bytes, which files.
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
  int64_t document = 0;         // in the dataset, from 0
  int64_t document_tokens = 0;  // of its sequence
  // The bytes [text_from, text_to) of the document that the tokens stand for, and these bytes. As
  // the tokenizer gives them back: one that normalises text (NFC) may have changed it before.
  int64_t text_from = 0, text_to = 0;
  std::string text;
  // From PREFIX.json, if there is one.
  std::string source;            // the file
  int64_t source_document = -1;  // in that file, from 0
  // Found by reading the file again; 0 and −1 where that was not asked for or was not possible.
  int64_t line = 0, offset = -1;
};

// What the pieces of a sample are. Without a tokenizer the texts stay empty. With `locate`, source
// files are read up to the last document in question; a file that has gone is passed over.
std::vector<PieceOrigin> explain(const IndexedDataset& data, const std::vector<SamplePiece>& pieces,
                                 const std::optional<DatasetAbout>& about,
                                 const Tokenizer* tokenizer, bool locate);

}  // namespace tessera::data
