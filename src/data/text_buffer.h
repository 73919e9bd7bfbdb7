// Reads the text of a file line by line or in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "data/byte_stream.h"

namespace tessera::data {

// Reads one file at a time. The buffer is reused for the next file; it holds one line (or piece)
// and at most the bytes of one further read.
class TextBuffer {
 public:
  // Limits in bytes. A longer line is rejected, since the file is probably not text, and so is a
  // longer file that is read as a whole instead of in pieces.
  static constexpr int64_t kLongestLine = int64_t{64} << 20;
  static constexpr int64_t kLongestWhole = int64_t{1} << 30;

  void open(const std::string& name, const std::function<void()>& on_wait);  // see ByteStream
  void close() { stream_.reset(); }
  bool is_open() const { return stream_ != nullptr; }
  const std::string& name() const { return stream_->name(); }
  int64_t stored_bytes() const { return stream_ ? stream_->stored_bytes() : 0; }

  // Returns at least the next `bytes` bytes (fewer at the end of the file) without consuming them.
  // Valid until the next call.
  std::string_view peek(size_t bytes);
  // Reads the next line without its line end; returns false at the end of the file. `line` is valid
  // until the next call.
  bool next_line(std::string_view& line);
  // Reads the next `bytes` bytes, or all that are left if `bytes` is 0; returns false at the end of
  // the file. `ends` becomes true if the file has no more bytes.
  bool next_piece(size_t bytes, std::string& out, bool& ends);

  int64_t offset() const { return offset_; }  // offset in the file of the next byte
  int64_t line() const { return line_; }      // number of lines before it

 private:
  size_t held() const { return end_ - begin_; }
  bool fill();  // appends to buffer_; false at the end of the file
  void take(size_t bytes);

  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // range of buffer_ that is not consumed yet
  bool file_ended_ = false;
  int64_t offset_ = 0, line_ = 0;
};

}  // namespace tessera::data
