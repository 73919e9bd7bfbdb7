#include "train/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace tessera::train {
namespace {

class TensorBoard : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("tessera_tensorboard_{}_{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(folder_)) {
      out.push_back(e.path().filename().string());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  Path folder_;
};

template <class T>
T little_endian(const std::string& bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The payloads of a file; fails where a checksum is wrong.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> out;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = little_endian<uint64_t>(bytes, at);
    EXPECT_EQ(little_endian<uint32_t>(bytes, at + 8), masked_crc32c(bytes.substr(at, 8)));
    out.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(little_endian<uint32_t>(bytes, at + 12 + length), masked_crc32c(out.back()));
    at += 16 + length;
  }
  return out;
}

// RFC 3720, B.4.
TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TfRecord, BuffersAPayload) {
  const std::string r = tfrecord("abc");
  ASSERT_EQ(r.size(), 19u);
  EXPECT_EQ(r.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(r.substr(12, 3), "abc");
  EXPECT_EQ(records(r), std::vector<std::string>{"abc"});
}

TEST_F(TensorBoard, AFileStartsWithItsVersionAndTheSession) {
  { TensorBoardFile file(folder_, 41, 1000.5); }
  ASSERT_EQ(names(), std::vector<std::string>{"events.out.tfevents.0000001000.tessera"});
  const auto r = records(read_file(folder_ / names()[0]));
  ASSERT_EQ(r.size(), 2u);
  EXPECT_NE(r[0].find("brain.Event:2"), std::string::npos);
  // Fields 1 (double 1000.5), 2 (41) and 7 (a message of 2 bytes: status 1).
  EXPECT_EQ(r[1].substr(9), std::string("\x10\x29\x3a\x02\x08\x01"));
}

TEST_F(TensorBoard, ScalarsAreTheBytesOfTheProtocol) {
  Path path;
  {
    TensorBoardFile file(folder_, 1, 1000);
    const std::array<TensorBoardFile::Scalar, 1> scalars = {{{"loss", 2.0}}};
    file.add(3, 1001, scalars);
    path = file.path();
  }
  const auto r = records(read_file(path));
  ASSERT_EQ(r.size(), 3u);
  // summary { value { tag: "loss" simple_value: 2 } }, 0x40000000 as a float.
  const std::string expected =
      std::string("\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15", 13) + std::string("\0\0\0\x40", 4);
  EXPECT_EQ(r[2].substr(9), expected);
}

TEST_F(TensorBoard, ALaterFileSortsBehindWhateverTheClockSays) {
  { TensorBoardFile file(folder_, 1, 1000); }
  { TensorBoardFile file(folder_, 5, 1000); }
  { TensorBoardFile file(folder_, 9, 900); }
  const std::vector<std::string> expected = {"events.out.tfevents.0000001000.tessera",
                                             "events.out.tfevents.0000001001.tessera",
                                             "events.out.tfevents.0000001002.tessera"};
  EXPECT_EQ(names(), expected);
}

TEST_F(TensorBoard, H4_AFileInTheWayIsReportedOnceAndNeverThrown) {
  write_file(folder_.string() + "_file", "x");
  TensorBoardFile file(folder_.string() + "_file/tensorboard", 1, 1000);
  const auto report = file.take_report();
  ASSERT_TRUE(report);
  EXPECT_NE(report->find("_file"), std::string::npos) << *report;
  const std::array<TensorBoardFile::Scalar, 1> scalars = {{{"loss", 2.0}}};
  file.add(3, 1001, scalars);
  EXPECT_FALSE(file.take_report());
  std::filesystem::remove(folder_.string() + "_file");
  file.add(4, 1002, scalars);
  EXPECT_EQ(records(read_file(file.path())).size(), 4u);
  std::filesystem::remove_all(folder_.string() + "_file");
}

}  // namespace
}  // namespace tessera::train
