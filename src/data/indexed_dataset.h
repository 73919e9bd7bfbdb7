// Token ids on disk, in the format of Megatron-LM (PREFIX.bin and PREFIX.idx), read in place. The
// bytes are described in docs/data_formats.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/file.h"

namespace tessera {

// The type Megatron-Core gives ids of that vocabulary: u16 below 65,500 entries, else i32.
DType dtype_for_vocabulary(int64_t vocabulary);

// A .idx says how long each *sequence* is; a *document* is a run of sequences. What we write has
// one sequence a document. Tokens are numbered through the whole file from 0.
class IndexedDataset {
 public:
  // Maps both files and checks all that the index says against itself and against the .bin, so
  // that no later read can leave them. Throws Error: what is missing, cut off or contradicts
  // itself.
  explicit IndexedDataset(const Path& prefix);

  const Path& prefix() const { return prefix_; }
  DType dtype() const { return dtype_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }

  int64_t length(int64_t sequence) const;          // in tokens
  int64_t first_token(int64_t sequence) const;     // sequence == sequences() gives tokens()
  int64_t first_sequence(int64_t document) const;  // document == documents() gives sequences()
  int64_t sequence_of(int64_t token) const;        // the one that holds it; by bisection

  // Tokens [from, from + out.size()) of the file.
  void read(int64_t from, std::span<int32_t> out) const;

  // `text` and nothing else, for messages: "corpus/train.idx".
  std::string index_name() const;
  std::string data_name() const;

 private:
  void check_header();
  void check_sequences();
  void check_documents();

  Path prefix_;
  MappedFile index_, data_;
  DType dtype_ = DType::kI32;
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  const std::byte* lengths_ = nullptr;  // i32[sequences], at no alignment
  const std::byte* offsets_ = nullptr;  // i64[sequences]
  const std::byte* starts_ = nullptr;   // i64[documents + 1]
};

}  // namespace tessera
