#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "checkpoint/convert.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

std::string with_length(const std::string& header, uint64_t length) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header;
}
std::string file_of(const std::string& header, size_t data_bytes) {
  return with_length(header, header.size()) + std::string(data_bytes, 'x');
}

// Two tensors of 8 and 4 bytes.
const std::string kGood =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}})";

TEST(Safetensors, ReadsAWholeFile) {
  TemporaryFolder temporary;
  const Path path = temporary.path() / "model.safetensors";
  write_file(path, file_of(kGood + "   ", 12));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[1].name, "b");
  EXPECT_EQ(file.entries()[1].dtype, DType::kBF16);
  EXPECT_EQ(file.entries()[1].shape, (Shape{1, 2}));
  EXPECT_EQ(file.bytes(file.entries()[0]).size(), 8u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

struct Broken {
  const char* name;
  std::string bytes;
  const char* said;
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

const std::vector<Broken>& broken_files() {
  static const std::vector<Broken> all{
      {"empty", "", "too few"},
      {"short", "abc", "too few"},
      {"header length beyond the file", with_length("{}", 3), "its header has 3 bytes"},
      {"header length absurd", with_length("{}", ~uint64_t{0}),
       "its header has 1844674407370955161"},
      {"header above the limit", with_length("{}", 100'000'001), "the limit is 100000000"},
      {"no JSON", file_of("hello", 0), "(header)"},
      {"not an object", file_of("[]", 0), "expected an object"},
      {"cut off", file_of(kGood, 11), "need 12 bytes, but the file has 11"},
      {"bytes behind", file_of(kGood, 13), "need 12 bytes, but the file has 13"},
      {"unknown type", file_of(entry("F33", "[2]", "[0,8]"), 8), "unknown type 'F33'"},
      {"type no text", file_of(R"({"a":{"dtype":1,"shape":[2],"data_offsets":[0,8]}})", 8),
       "expected text"},
      {"no shape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "has no 'shape'"},
      {"shape and bytes disagree", file_of(entry("F32", "[3]", "[0,8]"), 8), "needs 12"},
      {"negative extent", file_of(entry("F32", "[-2]", "[0,8]"), 8), "not negative"},
      {"overflow", file_of(entry("F32", "[4611686018427387904,4]", "[0,0]"), 0),
       "cannot have the shape"},
      {"offsets backwards", file_of(entry("F32", "[2]", "[8,0]"), 8),
       "expected [begin, end] with begin ≤ end"},
      {"one offset", file_of(entry("F32", "[2]", "[8]"), 8),
       "expected [begin, end] with begin ≤ end"},
      {"gap", file_of(entry("F32", "[2]", "[4,12]"), 12), "there is a gap"},
      {"overlap",
       file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
               6),
       "they overlap"},
      {"twice",
       file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
               8),
       "duplicate key 'a'"},
      {"metadata no text", file_of(R"({"__metadata__":{"a":1}})", 0), "expected text"},
  };
  return all;
}

TEST(Safetensors, BrokenFilesAreErrorsThatNameTheFile) {
  TemporaryFolder temporary;
  const Path path = temporary.path() / "model.safetensors";
  for (const Broken& b : broken_files()) {
    std::ofstream(path, std::ios::binary) << b.bytes;
    const std::string said = error_of([&] { const SafetensorsFile file(path); });
    EXPECT_NE(said.find(b.said), std::string::npos) << b.name << ": " << said;
    EXPECT_EQ(said.find(path.string()), 0u) << b.name << ": " << said;
  }
}

FillPiece counting(int64_t start) {
  return [start](int64_t first, int64_t count, std::byte* out) {
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>(start + first + i);
      std::memcpy(out + i * 4, &x, 4);
    }
  };
}

float element(const SafetensorsFolder::Found& found, size_t i) {
  float x = 0;
  std::memcpy(&x, found.bytes.data() + i * 4, 4);
  return x;
}

TEST(Safetensors, SeveralFilesAreOneFolder) {
  TemporaryFolder temporary;
  const std::vector<SafetensorsPlan> plans{{"a", DType::kF32, {3, 2}},
                                           {"b", DType::kF32, {5}},
                                           {"c", DType::kF32, {1}},
                                           {"d", DType::kF32, {100}}};
  const auto fill = [&](size_t i) { return counting(static_cast<int64_t>(i) * 1000); };
  const auto files = write_safetensors_folder(temporary.path(), plans, 47, fill);
  EXPECT_EQ(files, (std::vector<std::string>{"model-00001-of-00003.safetensors",
                                             "model-00002-of-00003.safetensors",
                                             "model-00003-of-00003.safetensors"}));
  const SafetensorsFolder folder(temporary.path());
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(element(*folder.find("b"), 4), 1004);
  EXPECT_EQ(element(*folder.find("d"), 99), 3099);
  EXPECT_FALSE(folder.find("e"));
}

TEST(Safetensors, AFolderMustAgreeWithItsIndex) {
  TemporaryFolder temporary;
  const Path index = temporary.path() / "model.safetensors.index.json";
  const auto said = [&](const std::string& text) {
    std::ofstream(index) << text;
    return error_of([&] { const SafetensorsFolder folder(temporary.path()); });
  };
  write_file(temporary.path() / "one.safetensors", file_of(kGood, 12));
  EXPECT_EQ(said(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})"), "no error");
  EXPECT_NE(said(R"({"weight_map":{"z":"one.safetensors"}})").find("does not contain it"),
            std::string::npos);
  EXPECT_NE(said(R"({"weight_map":{"a":"../one.safetensors"}})").find("not the name of a file"),
            std::string::npos);
  EXPECT_NE(said(R"({"weight_map":{"a":"two.safetensors"}})").find("cannot be opened"),
            std::string::npos);
  EXPECT_NE(said(R"({"weights":{}})").find("no 'weight_map'"), std::string::npos);
}

TEST(Safetensors, APickleIsRefusedWithTheWayOut) {
  TemporaryFolder temporary;
  std::ofstream(temporary.path() / "pytorch_model.bin") << "x";
  const std::string said = error_of([&] { const SafetensorsFolder folder(temporary.path()); });
  EXPECT_NE(said.find("save_pretrained"), std::string::npos) << said;
}

TEST(Permute, EveryStretchOfATransposedArray) {
  const Shape shape{3, 4, 5};
  std::vector<int16_t> from(60);
  std::iota(from.begin(), from.end(), int16_t{0});
  const std::vector<int> axes{2, 0, 1};
  std::vector<int16_t> wanted;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) wanted.push_back(static_cast<int16_t>((j * 4 + k) * 5 + i));
  for (int64_t first = 0; first < 60; ++first)
    for (int64_t count = 0; first + count <= 60; ++count) {
      std::vector<int16_t> got(static_cast<size_t>(count));
      copy_permuted(reinterpret_cast<const std::byte*>(from.data()), shape, axes, 2, first, count,
                    reinterpret_cast<std::byte*>(got.data()));
      ASSERT_TRUE(std::equal(got.begin(), got.end(), wanted.begin() + first));
    }
}

}  // namespace
}  // namespace tessera::checkpoint
