// Reads text through one growing buffer. [begin_, end_) are the bytes that are not consumed yet; a
// refill moves them to the front and appends, so a line is contiguous and memory is bounded by the
// longest line or piece.
#include "data/text_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tessera::data {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;

}  // namespace

void TextBuffer::open(const std::string& name, const std::function<void()>& on_wait) {
  stream_ = std::make_unique<ByteStream>(name, on_wait);
  begin_ = end_ = 0;
  file_ended_ = false;
  offset_ = line_ = 0;
}

bool TextBuffer::fill() {
  if (file_ended_) return false;
  if (begin_ > 0) {  // if a line fills the whole buffer, the buffer grows instead
    std::memmove(buffer_.data(), buffer_.data() + begin_, held());
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(std::max(2 * end_, end_ + kReadBytes));
  const size_t n = stream_->read(std::span(buffer_).subspan(end_, kReadBytes));
  end_ += n;
  file_ended_ = n == 0;
  return n > 0;
}

void TextBuffer::take(size_t bytes) {
  begin_ += bytes;
  offset_ += bytes;
}

std::string_view TextBuffer::peek(size_t bytes) {
  while (held() < bytes && fill()) {
  }
  return std::string_view(buffer_).substr(begin_, held());
}

bool TextBuffer::next_line(std::string_view& line) {
  // Bytes already searched for the line end are not searched again after a refill.
  size_t searched = 0;
  for (;;) {
    const std::string_view text(buffer_.data() + begin_, held());
    const size_t end = text.find('\n', searched);
    size_t taken = 0;
    if (end != text.npos) {
      line = text.substr(0, end);
      taken = end + 1;
    } else if (file_ended_) {
      // The last line of a file may have no line end.
      if (text.empty()) return false;
      line = text;
      taken = text.size();
    } else {
      searched = text.size();
      if (std::cmp_greater(searched, kLongestLine)) {
        throw Error(
            "{}:{}:1: this line is longer than {} bytes, expected one document per line. Check "
            "that this file is text",
            name(), line_ + 1, kLongestLine);
      }
      fill();
      continue;
    }
    take(taken);
    ++line_;
    // Removes the carriage return of a Windows line end.
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
}

bool TextBuffer::next_piece(size_t bytes, std::string& out, bool& ends) {
  // One more byte than a piece shows whether it is the last piece.
  while (bytes == 0 || held() <= bytes) {
    if (!fill()) break;
    if (std::cmp_greater(held(), kLongestWhole))
      throw Error(
          "{}: has more than {} bytes of text, too many for one document. Split it into lines or "
          "into several files",
          name(), kLongestWhole);
  }
  if (held() == 0) return false;
  ends = bytes == 0 || held() <= bytes;
  const size_t taken = ends ? held() : bytes;
  out.assign(buffer_, begin_, taken);
  take(taken);
  return true;
}

}  // namespace tessera::data
