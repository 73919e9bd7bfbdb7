// The bytes of a file or of standard input as they are read, decompressed on the way. gzip and zstd
// are known by their first bytes, not by the file's name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tessera::data {

struct GzipDecoder;  // in byte_stream.cc, as the libraries they stand for
struct ZstdDecoder;

class ByteStream {
 public:
  // "-" is standard input. A name that ends in .gz or .zst must hold what it says.
  // `on_wait` (may be empty) is called about ten times per second while a pipe or a terminal has no
  // bytes yet, also before a FIFO has a writer. What it throws ends the constructor or read().
  // Throws Error if there is no such file, if it is a folder, or if it may not be read.
  explicit ByteStream(const std::string& name, std::function<void()> on_wait = {});
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Fills `out` from the front and returns how much; 0 at the end and never before. Throws Error
  // that names file and byte if the compressed data is damaged or ends too early.
  size_t read(std::span<char> out);

  const std::string& name() const { return name_; }   // "standard input" for "-"
  int64_t stored_bytes() const { return stored_; }    // read from the file so far
  int64_t file_bytes() const { return file_bytes_; }  // of the whole file; −1 where unknown

 private:
  friend struct StoredBytes;
  bool refill();  // false at the end of the file
  void wait_for_bytes() const;
  size_t copy(std::span<char> out);

  std::string name_;
  std::function<void()> on_wait_;
  int fd_ = -1;
  int64_t stored_ = 0, file_bytes_ = -1, produced_ = 0;
  std::string buffer_;                 // stored bytes
  size_t begin_ = 0, end_ = 0;         // those of the buffer that nobody has taken yet
  std::unique_ptr<GzipDecoder> gzip_;  // at most one of the two
  std::unique_ptr<ZstdDecoder> zstd_;
};

}  // namespace tessera::data
