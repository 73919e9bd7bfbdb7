// Decompresses the pages of Parquet files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::data {

// Codecs by their numbers in the metadata.
enum class ParquetCodec : int32_t {
  kNone = 0,
  kSnappy = 1,
  kGzip = 2,
  kLzo = 3,
  kBrotli = 4,
  kLz4Hadoop = 5,
  kZstd = 6,
  kLz4Raw = 7
};

// Throws Error that names the codec if it is not supported: LZO, Brotli, LZ4 with Hadoop's frames,
// or an unknown one.
void require_codec(ParquetCodec codec);

// Writes the decompressed bytes to `out`, which has `size` bytes then. The memory that is allocated
// is proportional to what the input decompresses to, not to `size`. Throws Error if the input is
// damaged or has another size.
void decompress(ParquetCodec codec, std::string_view input, int64_t size, std::string& out);

}  // namespace tessera::data
