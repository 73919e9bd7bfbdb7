// The text of a file, a line or a piece at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "data/byte_stream.h"

namespace tessera::data {

// One file after the other, through one buffer, whose memory is kept. It holds a line (or a piece)
// and at most one read beyond it.
class TextBuffer {
 public:
  // A longer line is rejected, since the file is probably not text. So is a longer text file that
  // must be held as a whole (without pieces).
  static constexpr int64_t kLongestLine = int64_t{64} << 20;
  static constexpr int64_t kLongestWhole = int64_t{1} << 30;

  void open(const std::string& name, const std::function<void()>& on_wait);  // see ByteStream
  void close() { stream_.reset(); }
  bool is_open() const { return stream_ != nullptr; }
  const std::string& name() const { return stream_->name(); }
  int64_t stored_bytes() const { return stream_ ? stream_->stored_bytes() : 0; }

  // At least the next `bytes` bytes (fewer at the end of the file), which stay to be read. Valid
  // until the next call.
  std::string_view peek(size_t bytes);
  // The next line without its end, valid until the next call; false at the end of the file.
  bool next_line(std::string_view& line);
  // The next `bytes` bytes, or with 0 all that is left; false at the end of the file. `ends`: the
  // file holds no more.
  bool next_piece(size_t bytes, std::string& out, bool& ends);

  int64_t offset() const { return offset_; }  // in the file, of the first byte still to come
  int64_t line() const { return line_; }      // lines before it

 private:
  size_t held() const { return end_ - begin_; }
  bool fill();  // appends to buffer_; false at the end of the file
  void take(size_t bytes);

  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // what of buffer_ is still to come
  bool file_ended_ = false;
  int64_t offset_ = 0, line_ = 0;
};

}  // namespace tessera::data
