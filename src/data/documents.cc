// Splits files into documents with one growing buffer. [begin_, end_) are the bytes of the buffer
// that are not consumed yet; a refill moves them to the front and appends, so a document is
// contiguous and memory is bounded by the longest line, paragraph or piece.
#include "data/documents.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 16;

}  // namespace

DocumentStream::DocumentStream(SourceList sources, DocumentOptions options)
    : sources_(std::move(sources)), options_(std::move(options)), json_(options_.key) {
  for (const std::string& file : sources_.files) {
    std::error_code error;
    // The total is only for progress; it is unknown as soon as one size is.
    const auto size = file == "-" ? 0 : fs::file_size(file, error);
    if (file == "-" || error) {
      total_bytes_ = -1;
      break;
    }
    total_bytes_ += static_cast<int64_t>(size);
  }
}

int64_t DocumentStream::bytes_read() const {
  return done_bytes_ + (stream_ ? stream_->stored_bytes() : 0);
}
int64_t DocumentStream::bytes_total() const { return total_bytes_; }

bool DocumentStream::open_next() {
  if (stream_) done_bytes_ += stream_->stored_bytes();
  stream_.reset();
  if (source_ + 1 >= std::ssize(sources_.files)) return false;
  ++source_;
  const std::string& name = sources_.files[source_];
  stream_ = std::make_unique<ByteStream>(name, on_wait_);
  json_lines_ = options_.format == TextFormat::kJsonLines ||
                (options_.format == TextFormat::kAuto && named_json_lines(name));
  begin_ = end_ = 0;
  file_ended_ = false;
  offset_ = line_ = 0;
  // The first bytes decide whether the file is text, before anything of it is encoded.
  if (options_.any_bytes) return true;
  while (end_ < kTextProbe && fill()) {
  }
  refuse_what_is_not_text(std::string_view(buffer_).substr(0, end_), stream_->name());
  return true;
}

bool DocumentStream::fill() {
  if (file_ended_) return false;
  if (begin_ > 0) {  // a line that is longer than the buffer lets the buffer grow instead
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(std::max(2 * end_, end_ + kReadBytes));
  const size_t n = stream_->read(std::span(buffer_).subspan(end_, kReadBytes));
  end_ += n;
  file_ended_ = n == 0;
  return n > 0;
}

bool DocumentStream::next_line(std::string_view& line) {
  // Bytes already searched for the line end are not searched again after a refill.
  size_t searched = 0;
  for (;;) {
    const char* from = buffer_.data() + begin_;
    const size_t held = end_ - begin_;
    const void* end =
        held > searched ? std::memchr(from + searched, '\n', held - searched) : nullptr;
    size_t taken = 0;
    if (end != nullptr) {
      line = {from, static_cast<size_t>(static_cast<const char*>(end) - from)};
      taken = line.size() + 1;
    } else if (file_ended_) {
      // The last line of a file may have no line end.
      if (held == 0) return false;
      line = {from, held};
      taken = held;
    } else {
      searched = held;
      if (static_cast<int64_t>(held) > kLongestLine) {
        throw Error(
            "{}:{}:1: this line is longer than {} bytes. Expected lines that each hold a "
            "document; is this file text at all?",
            stream_->name(), line_ + 1, kLongestLine);
      }
      fill();
      continue;
    }
    begin_ += taken;
    offset_ += static_cast<int64_t>(taken);
    ++line_;
    // Line ends of Windows.
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
}

bool DocumentStream::next_whole(Document& out) {
  const auto piece = static_cast<size_t>(options_.piece_bytes);
  // One more byte than a piece shows whether it is the last piece.
  while (piece == 0 || end_ - begin_ <= piece) {
    if (!fill()) break;
    if (static_cast<int64_t>(end_ - begin_) > kLongestWhole)
      throw Error(
          "{}: has more than {} bytes of text, which are too many for one document. Split it into "
          "lines or into several files",
          stream_->name(), kLongestWhole);
  }
  const size_t held = end_ - begin_;
  if (held == 0) return false;
  out.ends = piece == 0 || held <= piece;
  const size_t taken = out.ends ? held : piece;
  out.text.assign(buffer_, begin_, taken);
  out.offset = offset_;
  out.line = 1;
  begin_ += taken;
  offset_ += static_cast<int64_t>(taken);
  return true;
}

bool DocumentStream::next_split_line(Document& out) {
  std::string_view line;
  do {
    out.offset = offset_;
    if (!next_line(line)) return false;
  } while (line.empty());
  out.text.assign(line);
  out.line = line_;
  return true;
}

// A paragraph is a run of lines that are not empty.
bool DocumentStream::next_paragraph(Document& out) {
  if (!next_split_line(out)) return false;
  for (std::string_view line; next_line(line) && !line.empty();) {
    out.text.append("\n").append(line);
  }
  return true;
}

// Counts a bad line, or throws its error if no more bad lines may be left out.
void DocumentStream::leave_out(const Error& error) {
  if (options_.skip_bad == 0) throw error;
  if (bad_lines_ == options_.skip_bad)
    throw Error("{} This is bad line {}; --skip-bad leaves out {} at most.", sentence(error.what()),
                bad_lines_ + 1, options_.skip_bad);
  if (bad_lines_++ == 0) first_bad_ = error.what();
}

bool DocumentStream::next_json(Document& out) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  for (std::string_view line;;) {
    out.offset = offset_;
    if (!next_line(line)) return false;
    if (line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    out.line = line_;
    json_text_.assign(line);
    try {
      json_.parse(json_text_, fmt::format("{}:{}", stream_->name(), line_), out.text);
      return true;
    } catch (const Error& error) {
      leave_out(error);
    }
  }
}

bool DocumentStream::next(Document& out) {
  for (;;) {
    if (stream_) {
      const bool found = json_lines_                            ? next_json(out)
                         : options_.split == Split::kLines      ? next_split_line(out)
                         : options_.split == Split::kParagraphs ? next_paragraph(out)
                                                                : next_whole(out);
      out.source = source_;
      if (json_lines_ || options_.split != Split::kNone) out.ends = true;
      if (found) return true;
    }
    if (!open_next()) return false;
  }
}

}  // namespace tessera
