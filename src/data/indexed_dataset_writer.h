// Writes PREFIX.bin and PREFIX.idx, byte for byte as Megatron-Core writes them.
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
// documents: their lengths wait in an unnamed file next to the others. Nothing appears under the
// final names before commit(); without it, nothing is left.
class IndexedDatasetWriter {
 public:
  // u16 or i32. Throws Error that names the owner if another process writes this prefix.
  IndexedDatasetWriter(const Path& prefix, DType dtype);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  // Tokens of the document that is being written, and its end; it may be empty. Throws Error if it
  // has 2^31 tokens or more, as the format holds a length in 32 bits.
  void add_tokens(std::span<const int32_t> ids);
  void end_document();
  void add_document(std::span<const int32_t> ids) {
    add_tokens(ids);
    end_document();
  }

  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }

  // Puts the files in their places: first all bytes reach the disk, then an old .idx is removed,
  // and .bin, .json and at last .idx are renamed. `about` is what PREFIX.json holds
  // (dataset_about.h).
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
  int64_t length_ = 0;  // of the document that has not ended
};

}  // namespace tessera::data
