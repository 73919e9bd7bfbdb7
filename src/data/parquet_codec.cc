// Snappy's and LZ4's blocks are a few rules each, which are implemented here; neither library is
// needed for anything else. gzip and zstd are those of zlib and libzstd.
//
// https://github.com/google/snappy/blob/main/format_description.txt
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
#include "data/parquet_codec.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace tessera::data {
namespace {

// Reads an input from its beginning to its end.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  bool ended() const { return at_ == bytes_.size(); }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  // A little-endian integer of `count` bytes.
  uint64_t integer(size_t count) {
    const std::string_view b = take(count);
    uint64_t n = 0;
    for (size_t i = 0; i < count; ++i)
      n |= static_cast<uint64_t>(static_cast<uint8_t>(b[i])) << (8 * i);
    return n;
  }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) throw Error("a compressed page ends too early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// The output of a codec, which is at most as long as announced.
class Output {
 public:
  Output(std::string& text, int64_t size) : text_(text), size_(static_cast<uint64_t>(size)) {
    text_.clear();
  }
  void append(std::string_view bytes) {
    reserve(bytes.size());
    text_.append(bytes);
  }
  // Appends `count` bytes from `back` bytes before the end on, which may overlap the new ones.
  void copy(uint64_t back, uint64_t count) {
    if (back == 0 || back > text_.size()) throw Error("a compressed page refers to no bytes");
    reserve(count);
    for (uint64_t i = 0; i < count; ++i) text_.push_back(text_[text_.size() - back]);
  }

 private:
  void reserve(uint64_t more) const {
    if (more > size_ - text_.size())
      throw Error("a compressed page is longer than the {} bytes that it announces", size_);
  }
  std::string& text_;
  uint64_t size_;
};

void snappy(std::string_view input, int64_t size, std::string& out) {
  Input in(input);
  uint64_t announced = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t b = in.byte();
    announced |= static_cast<uint64_t>(b & 0x7F) << shift;
    if ((b & 0x80) == 0) break;
    if (shift > 28) throw Error("a compressed page has a damaged length");
  }
  if (announced != static_cast<uint64_t>(size))
    throw Error("a compressed page announces {} bytes, expected {}", announced, size);
  Output to(out, size);
  while (!in.ended()) {
    const uint8_t tag = in.byte();
    switch (tag & 3) {
      case 0: {  // bytes as they are
        uint64_t length = tag >> 2;
        if (length >= 60) length = in.integer(length - 59);
        to.append(in.take(length + 1));
        break;
      }
      case 1: {
        const uint64_t back = (static_cast<uint64_t>(tag >> 5) << 8) | in.byte();
        to.copy(back, 4 + ((tag >> 2) & 7));
        break;
      }
      default: {
        const uint64_t back = in.integer((tag & 3) == 2 ? 2 : 4);
        to.copy(back, 1 + (tag >> 2));
      }
    }
  }
}

// Returns a length that begins with 4 bits of a token and continues while bytes are 255.
uint64_t lz4_length(Input& in, uint64_t first) {
  if (first < 15) return first;
  for (uint8_t b = 255; b == 255;) first += b = in.byte();
  return first;
}

void lz4(std::string_view input, int64_t size, std::string& out) {
  constexpr uint64_t kShortestCopy = 4;
  Input in(input);
  Output to(out, size);
  while (!in.ended()) {
    const uint8_t token = in.byte();
    to.append(in.take(lz4_length(in, token >> 4)));
    if (in.ended()) break;  // the last sequence has no copy
    const uint64_t back = in.integer(2);
    to.copy(back, kShortestCopy + lz4_length(in, token & 15));
  }
}

constexpr size_t kPiece = size_t{1} << 16;

// Appends pieces of decompressed bytes until step() returns false. step(out, size) writes to `out`,
// sets `size` to the number of bytes written, and returns whether more follow.
template <class Step>
void in_pieces(int64_t size, std::string& out, const Step& step) {
  Output to(out, size);
  std::string piece(kPiece, '\0');
  for (bool more = true; more;) {
    size_t written = piece.size();
    more = step(piece.data(), written);
    to.append(std::string_view(piece).substr(0, written));
  }
}

void gzip(std::string_view input, int64_t size, std::string& out) {
  z_stream z = {};
  constexpr int kGzipOrZlib = 15 + 32;
  if (inflateInit2(&z, kGzipOrZlib) != Z_OK) throw Error("zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  // zlib does not change its input.
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  z.avail_in = static_cast<uInt>(input.size());
  in_pieces(size, out, [&](char* piece, size_t& written) {
    z.next_out = reinterpret_cast<Bytef*>(piece);
    z.avail_out = static_cast<uInt>(written);
    const int code = inflate(&z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END) throw Error("a page is not gzip data");
    written -= z.avail_out;
    if (code == Z_OK && written == 0) throw Error("a page of gzip data ends too early");
    return code == Z_OK;
  });
}

void zstd(std::string_view input, int64_t size, std::string& out) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  ZSTD_inBuffer in = {input.data(), input.size(), 0};
  in_pieces(size, out, [&](char* piece, size_t& written) {
    ZSTD_outBuffer to = {piece, written, 0};
    const size_t before = in.pos;
    const size_t code = ZSTD_decompressStream(stream.get(), &to, &in);
    if (ZSTD_isError(code) != 0)
      throw Error("a page is not zstd data: {}", ZSTD_getErrorName(code));
    written = to.pos;
    if (code != 0 && written == 0 && in.pos == before) throw Error("a zstd page is truncated");
    return code != 0 || in.pos < in.size;
  });
}

}  // namespace

void require_codec(ParquetCodec codec) {
  const char* name = nullptr;
  switch (codec) {
    case ParquetCodec::kNone:
    case ParquetCodec::kSnappy:
    case ParquetCodec::kGzip:
    case ParquetCodec::kZstd:
    case ParquetCodec::kLz4Raw:
      return;
    case ParquetCodec::kLzo:
      name = "LZO";
      break;
    case ParquetCodec::kBrotli:
      name = "Brotli";
      break;
    case ParquetCodec::kLz4Hadoop:
      name = "LZ4 in Hadoop's frames";
      break;
  }
  throw Error(
      "compressed with {}, expected none, Snappy, gzip, zstd or LZ4_RAW. Write it again, "
      "for example with pyarrow: write_table(table, file, compression='zstd')",
      name != nullptr ? name : fmt::format("codec {}", static_cast<int>(codec)).c_str());
}

void decompress(ParquetCodec codec, std::string_view input, int64_t size, std::string& out) {
  if (size == 0 && input.empty()) return out.clear();
  switch (codec) {
    case ParquetCodec::kSnappy:
      snappy(input, size, out);
      break;
    case ParquetCodec::kGzip:
      gzip(input, size, out);
      break;
    case ParquetCodec::kZstd:
      zstd(input, size, out);
      break;
    case ParquetCodec::kLz4Raw:
      lz4(input, size, out);
      break;
    default:
      out.assign(input);
  }
  if (std::ssize(out) != size) throw Error("a page has {} bytes, expected {}", out.size(), size);
}

}  // namespace tessera::data
