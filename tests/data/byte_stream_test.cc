#include "data/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

std::string gzip(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string read_all(const std::string& file, size_t block) {
  ByteStream stream(file);
  std::string all, piece(block, '\0');
  while (const size_t n = stream.read(piece)) all.append(piece, 0, n);
  return all;
}

std::string sample_text() {
  std::string text;
  for (int i = 0; i < 90000; ++i) text += std::to_string(i * 7919 % 104729) + "\n";
  return text;
}

using ByteStreamTest = DatasetFixture;

TEST_F(ByteStreamTest, ReadsPlainGzipAndZstdAlike) {
  const std::string text = sample_text();
  for (const size_t block : {size_t{1000}, size_t{1} << 18}) {
    EXPECT_EQ(read_all(put("a.txt", text), block), text);
    EXPECT_EQ(read_all(put("a.txt.gz", gzip(text)), block), text);
    EXPECT_EQ(read_all(put("a.txt.zst", zstd(text)), block), text);
  }
}

TEST_F(ByteStreamTest, KnowsCompressionByContentAndReadsSeveralMembers) {
  const std::string text = sample_text();
  EXPECT_EQ(read_all(put("a.dict.dz", gzip(text) + gzip("b") + std::string(600, '\0')), 4096),
            text + "b");
  EXPECT_EQ(read_all(put("noname", zstd(text) + zstd("") + zstd("b")), 4096), text + "b");
}

TEST_F(ByteStreamTest, EmptyFileIsEmptyText) { EXPECT_EQ(read_all(put("e.txt", ""), 10), ""); }

TEST_F(ByteStreamTest, NamesTheByteWhereCompressedDataEnds) {
  const std::string text = sample_text();
  for (const auto& [name, bytes] :
       std::map<std::string, std::string>{{"a.gz", gzip(text)}, {"a.zst", zstd(text)}}) {
    for (const size_t cut : {bytes.size() / 2, bytes.size() - 1, size_t{12}}) {
      const std::string file = put(name, bytes.substr(0, cut));
      const std::string message = error_of([&] { read_all(file, 1 << 16); });
      EXPECT_TRUE(contains(message, file + ": the " + (name == "a.gz" ? "gzip" : "zstd")))
          << message;
      EXPECT_TRUE(contains(message, fmt::format("ends too early, at byte {}", cut))) << message;
      EXPECT_TRUE(contains(message, "copy it again")) << message;
    }
  }
}

TEST_F(ByteStreamTest, NamesDamagedData) {
  std::string bytes = gzip(sample_text());
  bytes[bytes.size() - 6] ^= 1;  // the checksum
  EXPECT_TRUE(
      contains(error_of([&] { read_all(put("a.gz", bytes), 1 << 16); }), "damaged near byte"));
  bytes = zstd(sample_text());
  bytes[20] = static_cast<char>(~bytes[20]);
  bytes[6] = static_cast<char>(~bytes[6]);
  EXPECT_TRUE(
      contains(error_of([&] { read_all(put("a.zst", bytes), 1 << 16); }), "damaged near byte"));
  EXPECT_TRUE(contains(error_of([&] { read_all(put("b.gz", gzip("a") + "rest"), 1 << 16); }),
                       "damaged near byte"));
}

TEST_F(ByteStreamTest, RefusesWhatIsNoFile) {
  EXPECT_TRUE(
      contains(error_of([&] { ByteStream s(path("none.txt")); }), "cannot be read: No such"));
  EXPECT_TRUE(contains(error_of([&] { ByteStream s(folder_.string()); }), "is a folder"));
  EXPECT_TRUE(contains(error_of([&] { ByteStream s(put("a.gz", "plain")); }), "is not gzip data"));
  EXPECT_TRUE(contains(error_of([&] { ByteStream s(put("a.zst", "")); }), "is not zstd data"));
}

}  // namespace
}  // namespace tessera::data
