// Reads a file or standard input as a stream of bytes, and decompresses gzip and zstd, which are
// recognized by their first bytes and not by the file's name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tessera::data {

struct GzipDecoder;  // defined in byte_stream.cc, which includes the libraries' headers
struct ZstdDecoder;

class ByteStream {
 public:
  // "-" is standard input. A file whose name ends in .gz or .zst must be compressed.
  // `on_wait` (may be empty) is called about ten times per second while a pipe or a terminal has no
  // bytes yet, also before a FIFO has a writer. If it throws, the constructor or read() throws.
  // Throws Error if there is no such file, if it is a folder, or if it cannot be read.
  explicit ByteStream(const std::string& name, std::function<void()> on_wait = {});
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Writes bytes to the front of `out` and returns their number, which is 0 only at the end. Throws
  // Error that names file and byte if the compressed data is damaged or ends too early.
  size_t read(std::span<char> out);

  const std::string& name() const { return name_; }   // "standard input" for "-"
  int64_t stored_bytes() const { return stored_; }    // bytes read from the file so far
  int64_t file_bytes() const { return file_bytes_; }  // size of the file; −1: unknown

 private:
  friend struct StoredBytes;
  bool refill();  // false at the end of the file
  void wait_for_bytes() const;
  size_t copy(std::span<char> out);

  std::string name_;
  std::function<void()> on_wait_;
  int fd_ = -1;
  int64_t stored_ = 0, file_bytes_ = -1, produced_ = 0;
  std::string buffer_;                 // bytes of the file as stored
  size_t begin_ = 0, end_ = 0;         // the range of buffer_ that is not consumed yet
  std::unique_ptr<GzipDecoder> gzip_;  // at most one of the two
  std::unique_ptr<ZstdDecoder> zstd_;
};

}  // namespace tessera::data
