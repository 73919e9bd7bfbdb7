// Text in, PREFIX.bin, PREFIX.idx and PREFIX.json out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset_about.h"
#include "data/documents.h"
#include "data/tokenizer.h"

namespace tessera::data {

struct BuildOptions {
  std::vector<std::string> inputs;  // files, folders, "-"
  DocumentOptions documents;
  Path out;                    // PREFIX; its folder is made if need be
  std::string tokenizer_name;  // as it was named, for PREFIX.json
  bool end_of_text = true;     // a token behind each document, also behind an empty one
  int threads = 1;             // that encode; reading and writing take the caller's
  bool replace = true;         // an existing dataset; false: an error instead
};

struct BuildProgress {
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  int64_t bytes_read = 0, bytes_total = -1;  // of the files as they are stored; −1: unknown
};

struct BuildResult {
  DatasetAbout about;
  int64_t skipped_files = 0;          // in folders, by their names
  std::vector<std::string> left_out;  // the first of them
  std::vector<std::string> tables;    // .csv and .tsv files, read as plain text
  int64_t bad_lines = 0;              // left out (DocumentOptions::skip_bad)
  std::string first_bad;              // why the first of them was
};

// Documents are encoded in parallel and written in order, so the files do not depend on `threads`.
// Memory is bounded: about 64 MiB of text and its ids are under way; a document of more than 1 MiB
// is encoded in pieces that give the same ids. Text of more than 64 MiB without a position to split
// it is rejected. `progress` (may be empty) is called by the caller's thread now and then, also
// while an input has no bytes yet. Throws Error if there is no document in the inputs, if there is
// a dataset that must not be replaced, if end_of_text is set and the tokenizer has none, and
// whatever reading, encoding and writing throw; then no file has changed.
BuildResult build_dataset(const Tokenizer& tokenizer, const BuildOptions& options,
                          const std::function<void(const BuildProgress&)>& progress);

}  // namespace tessera::data
