// Writes PREFIX.bin and PREFIX.idx, byte for byte as Megatron-Core does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "base/file.h"
#include "base/owner_lock.h"

namespace tessera::data {

// One process at a time writes a prefix: it owns PREFIX.lock (base/owner_lock.h) while it writes,
// so that the three files always belong together. Memory does not grow with the number of
// documents: their lengths are spooled to an unnamed file next to the others. Nothing appears under
// the final names before commit(); without commit(), nothing is left.
class IndexedDatasetWriter {
 public:
  // `dtype` is u16 or i32. Throws Error that names the owner if another process writes this prefix.
  IndexedDatasetWriter(const Path& prefix, DType dtype);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  // Adds tokens to the current document, and ends it; a document may be empty. Throws Error if it
  // has 2^31 tokens or more, since the format stores lengths in 32 bits.
  void add_tokens(std::span<const int32_t> ids);
  void end_document();
  void add_document(std::span<const int32_t> ids) {
    add_tokens(ids);
    end_document();
  }

  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }

  // Publishes the files: flushes all of them to disk, removes an old .idx, and renames .bin, .json
  // and finally .idx to their names. `about` is the text of PREFIX.json (dataset_about.h).
  void commit(std::string_view about);

 private:
  class Lengths;
  void write_index();

  Path prefix_;
  OwnerLock lock_;
  DType dtype_;
  FileWriter data_, index_, about_;
  std::unique_ptr<Lengths> lengths_;
  int64_t documents_ = 0, tokens_ = 0;
  int64_t length_ = 0;  // tokens of the current document
};

}  // namespace tessera::data
