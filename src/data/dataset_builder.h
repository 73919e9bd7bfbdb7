// Builds a dataset from text: writes PREFIX.bin, PREFIX.idx and PREFIX.json.
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
  Path out;                    // PREFIX; its folder is created if it does not exist
  std::string tokenizer_name;  // file name as given by the user, for PREFIX.json
  bool end_of_text = true;     // add an end-of-text token after each document, even an empty one
  int threads = 1;             // encoding threads; the caller's thread reads and writes
  bool replace = true;         // replace an existing dataset; false: throw Error
};

struct BuildProgress {
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  int64_t bytes_read = 0, bytes_total = -1;  // bytes of the files as stored; −1: unknown
};

struct BuildResult {
  DatasetInfo about;
  int64_t skipped_files = 0;          // files in folders that were skipped because of their names
  std::vector<std::string> left_out;  // the first of these
  std::vector<std::string> tables;    // .csv and .tsv files, which were read as plain text
  int64_t bad_lines = 0;              // skipped lines (DocumentOptions::skip_bad)
  std::string first_bad;              // the error of the first of these
};

// Builds a dataset. Documents are encoded in parallel and written in order, so the files do not
// depend on `threads`. Memory is bounded: at most about 64 MiB of text and its ids are in progress,
// and a document of more than 1 MiB is encoded in pieces, which give the same ids. Text of more
// than 64 MiB without a position to split it is rejected. `progress` (may be empty) is called
// regularly on the caller's thread, also while an input has no bytes yet. Throws Error if the
// inputs have no document, if a dataset exists that must not be replaced, if end_of_text is set but
// the tokenizer has no such token, and all errors of reading, encoding and writing; then no file
// has changed.
BuildResult build_dataset(const Tokenizer& tokenizer, const BuildOptions& options,
                          const std::function<void(const BuildProgress&)>& progress);

}  // namespace tessera::data
