// A stream of bytes from a file, a pipe or standard input, decompressed with zlib or libzstd. The
// format is recognized by its magic number. Decoders read the stored bytes from one buffer and
// count the bytes they consume, so that errors can name the position in the compressed file.
#include "data/byte_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::data {

// A decoder's interface to its stream: the stored bytes, and functions that report damage in them.
struct StoredBytes {
  explicit StoredBytes(ByteStream& stream) : from(stream) {}

  bool refill() const { return from.begin_ < from.end_ || from.refill(); }
  char* input() const { return from.buffer_.data() + from.begin_; }
  size_t available() const { return from.end_ - from.begin_; }
  void take(size_t bytes) const { from.begin_ += bytes; }

  // Returns the position of the decoder in the stored file.
  int64_t place() const { return from.stored_ - available(); }

  [[noreturn]] void ended_early(const char* format) const {
    throw Error(
        "{}: the {} data ends too early, at byte {} of the file (after {} bytes of text). "
        "It was probably truncated while being copied or written: copy it again",
        from.name_, format, place(), from.produced_);
  }
  [[noreturn]] void damaged(const char* format, const char* reason) const {
    throw Error(
        "{}: the {} data is damaged near byte {} of the file ({}), after {} bytes of text. Copy or "
        "compress it again",
        from.name_, format, place(), reason, from.produced_);
  }

  ByteStream& from;
};

// Decodes gzip (RFC 1952), including several members in sequence, as pigz, bgzip and dictzip write
// it.
struct GzipDecoder : StoredBytes {
  explicit GzipDecoder(ByteStream& stream) : StoredBytes(stream) {
    constexpr int kWindowBits = 15 + 16;  // the largest window; gzip's header and checksum
    CHECK(inflateInit2(&state, kWindowBits) == Z_OK, "zlib cannot be initialized");
  }
  ~GzipDecoder() { inflateEnd(&state); }

  size_t read(std::span<char> out) {
    state.next_out = reinterpret_cast<Bytef*>(out.data());
    state.avail_out = static_cast<uInt>(out.size());
    // Loops until there is output: a block of input may yield none, and 0 would mean the end.
    while (state.avail_out == out.size()) {
      if (!refill()) {
        if (inside) ended_early("gzip");
        break;
      }
      if (!inside && !start_member()) break;
      state.next_in = reinterpret_cast<Bytef*>(input());
      state.avail_in = static_cast<uInt>(available());
      const size_t before = available();
      const int rc = inflate(&state, Z_NO_FLUSH);
      take(before - state.avail_in);
      if (rc == Z_STREAM_END) {
        inside = false;
      } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        // Z_BUF_ERROR is not an error: inflate needs more input.
        damaged("gzip", state.msg ? state.msg : "unknown reason");
      }
    }
    return out.size() - state.avail_out;
  }

  // Starts the next member. Zeros between members are padding up to the end, as gzip itself treats
  // them.
  bool start_member() {
    while (*input() == '\0') {
      take(1);
      if (!refill()) return false;
    }
    inflateReset(&state);
    inside = true;
    return true;
  }

  z_stream state{};
  bool inside = false;
};

// Decodes Zstandard frames (RFC 8878), one after the other.
struct ZstdDecoder : StoredBytes {
  explicit ZstdDecoder(ByteStream& stream) : StoredBytes(stream), context(ZSTD_createDCtx()) {
    CHECK(context != nullptr, "zstd cannot be initialized");
  }
  ~ZstdDecoder() { ZSTD_freeDCtx(context); }

  size_t read(std::span<char> out) {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      // The decoder may have output left that did not fit into the last buffer, so it is called
      // again at the end of the input.
      const bool more = refill();
      if (!more && !inside) break;
      ZSTD_inBuffer in{input(), available(), 0};
      const size_t rc = ZSTD_decompressStream(context, &to, &in);
      take(in.pos);
      if (ZSTD_isError(rc)) damaged("zstd", ZSTD_getErrorName(rc));
      // 0: a frame ended exactly here, and the input may end.
      inside = rc != 0;
      if (!more && inside && to.pos == 0) ended_early("zstd");
    }
    return to.pos;
  }

  ZSTD_DCtx* context;
  bool inside = false;
};

namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 16;
constexpr int64_t kLeastBuffer = 64;  // enough for the first bytes, which show the format
constexpr int kWait_ms = 100;         // time between two calls of on_wait

bool ends_with(const std::string& s, const char* suffix) {
  const size_t n = std::strlen(suffix);
  return s.size() >= n && s.compare(s.size() - n, n, suffix) == 0;
}

}  // namespace

ByteStream::ByteStream(const std::string& name, std::function<void()> on_wait)
    : name_(name == "-" ? "standard input" : name), on_wait_(std::move(on_wait)) {
  if (name == "-") {
    fd_ = dup(STDIN_FILENO);
  } else {
    // O_NONBLOCK: opening a FIFO must not wait for a writer. wait_for_bytes() waits instead.
    fd_ = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  if (fd_ < 0) throw Error("{}: cannot be read: {}", name_, std::strerror(errno));
  struct stat status {};
  if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode)) file_bytes_ = status.st_size;
  // One byte more than the file has, so that its end is detected without growing the buffer.
  const int64_t wanted = file_bytes_ < 0 ? kBufferBytes : std::min(file_bytes_ + 1, kBufferBytes);
  buffer_.resize(std::max(wanted, kLeastBuffer));
  try {
    if (S_ISDIR(status.st_mode)) throw Error("{}: is a folder, expected a file", name_);
    // Devices such as /dev/zero never end; terminal input and pipes do.
    const bool device = S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && isatty(fd_) == 0);
    if (device && name != "-") throw Error("{}: is a device, expected a file or a pipe", name_);
    // The magic numbers have at most 4 bytes.
    while (end_ < 4 && refill()) {
    }
    const auto starts = [&](std::string_view magic) {
      return std::string_view(buffer_).substr(0, end_).starts_with(magic);
    };
    if (starts("\x1f\x8b")) {
      gzip_ = std::make_unique<GzipDecoder>(*this);
    } else if (starts("\x28\xb5\x2f\xfd")) {
      zstd_ = std::make_unique<ZstdDecoder>(*this);
    } else if (ends_with(name_, ".gz") || ends_with(name_, ".zst")) {
      throw Error(
          "{}: is not {} data by its first bytes, expected a compressed file. Remove the suffix "
          "from the name if the file is not compressed",
          name_, ends_with(name_, ".gz") ? "gzip" : "zstd");
    }
  } catch (...) {
    close(fd_);
    throw;
  }
}

ByteStream::~ByteStream() { close(fd_); }

// Returns once a read would return bytes or the end. Until a FIFO has had a writer, it has neither.
// poll() is used because, unlike open() and read(), it is never restarted after a signal, so that
// on_wait can end the program.
void ByteStream::wait_for_bytes() const {
  pollfd one{fd_, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&one, 1, on_wait_ ? kWait_ms : -1);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
    if (on_wait_) on_wait_();
  }
}

bool ByteStream::refill() {
  if (begin_ == end_) begin_ = end_ = 0;
  ssize_t n;
  do {
    // Regular files are always ready, and poll() would cost a system call per read.
    if (file_bytes_ < 0) wait_for_bytes();
    n = ::read(fd_, buffer_.data() + end_, buffer_.size() - end_);
  } while (n < 0 && (errno == EINTR || errno == EAGAIN));
  if (n < 0) throw Error("{}: reading failed at byte {}: {}", name_, stored_, std::strerror(errno));
  end_ += n;
  stored_ += n;
  return n > 0;
}

size_t ByteStream::copy(std::span<char> out) {
  if (begin_ == end_ && !refill()) return 0;
  const size_t n = std::min(out.size(), end_ - begin_);
  std::memcpy(out.data(), buffer_.data() + begin_, n);
  begin_ += n;
  return n;
}

size_t ByteStream::read(std::span<char> out) {
  const size_t n = gzip_ ? gzip_->read(out) : zstd_ ? zstd_->read(out) : copy(out);
  produced_ += n;
  return n;
}

}  // namespace tessera::data
