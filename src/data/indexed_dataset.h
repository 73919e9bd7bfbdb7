// Reads token ids from disk in the format of Megatron-LM (PREFIX.bin and PREFIX.idx).
// docs/data_formats.md describes the format byte by byte.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "data/data_file.h"

namespace tessera::data {

// Returns the type in which Megatron-Core stores ids of such a vocabulary: u16 below 65,500
// entries, otherwise i32.
DType dtype_for_vocabulary(int64_t vocabulary);

// A .idx has the length of each *sequence*; a *document* is a run of sequences. Datasets that
// Tessera writes have one sequence per document. Tokens are numbered from 0 through the whole file.
//
// Memory: 4 bytes per sequence, and nothing that grows with the .bin. With more than
// `held_sequences` sequences, memory does not grow with the index either: each length is read when
// it is needed. Not thread safe.
class IndexedDataset {
 public:
  static constexpr int64_t kHeldSequences = int64_t{1} << 24;

  // Checks that the index is consistent and matches the .bin. Throws Error with the location if a
  // file is missing, truncated or inconsistent.
  explicit IndexedDataset(const Path& prefix, int64_t held_sequences = kHeldSequences);

  const Path& prefix() const { return prefix_; }
  DType dtype() const { return dtype_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }

  // Returns a description of the contents: counts, and a hash of the whole .idx and of blocks of
  // the .bin (all of it up to 8 MiB, otherwise 64 evenly spaced blocks of 16 KiB). Two datasets
  // count as the same if these are equal.
  std::string identity() const;

  int64_t length(int64_t sequence) const;          // number of tokens
  int64_t first_token(int64_t sequence) const;     // sequence == sequences() gives tokens()
  int64_t first_sequence(int64_t document) const;  // document == documents() gives sequences()
  int64_t sequence_of(int64_t token) const;        // the sequence that contains it; by bisection
  // Visits the lengths of sequences [begin, end) in blocks; `first` is the first one of a block.
  void visit_lengths(
      int64_t begin, int64_t end,
      const std::function<void(int64_t first, std::span<const int32_t> lengths)>& block) const;

  // Reads tokens [from, from + out.size()) of the file. This and all functions above throw Error
  // with file and byte if a file was truncated or changed after it was opened, or cannot be read.
  void read(int64_t from, std::span<int32_t> out) const;

  // Throws Error if the content of the .bin was changed after it was opened, so that tokens read
  // before may be different ones. A new modification time alone is accepted.
  void require_unchanged() const;

  // The file names, for messages: "corpus/train.idx", "corpus/train.bin".
  std::string index_name() const { return index_.path().string(); }
  std::string data_name() const { return data_.path().string(); }

  // Throws the Error for an index that was changed after it was opened.
  [[noreturn]] void index_changed() const;

 private:
  void check_header();
  void check_sequences(int64_t held_sequences);
  void check_lengths(int64_t first, std::span<const int32_t> lengths,
                     std::span<const int64_t> offsets, int64_t& expected);
  void check_documents();
  uint64_t hash_data() const;
  bool held() const { return before_.size() > 0; }

  Path prefix_;
  DataFile index_;
  mutable DataFile data_;
  DType dtype_ = DType::kI32;
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  // Offsets in the .idx, in bytes.
  int64_t lengths_at_ = 0;  // i32[sequences]
  int64_t offsets_at_ = 0;  // i64[sequences]
  int64_t starts_at_ = 0;   // i64[documents + 1]
  // All lengths, and the first token of every 64th sequence; empty if they are not held in memory.
  std::vector<int32_t> lengths_;
  std::vector<int64_t> before_;
  uint64_t index_hash_ = 0, data_hash_ = 0;
};

}  // namespace tessera::data
