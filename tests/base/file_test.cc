#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mapped_fault.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() : folder_(fs::temp_directory_path() / fmt::format("tessera_file_{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~File() override { fs::remove_all(folder_); }
  Path folder_;
};

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(File, RoundTrip) {
  const Path path = folder_ / "a";
  std::string text(3'000'000, 'x');
  text[1'234'567] = '\0';
  write_file(path, text);
  EXPECT_EQ(read_file(path), text);
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
  const MappedFile mapped(path);
  EXPECT_EQ(mapped.bytes().size(), text.size());
  EXPECT_EQ(mapped.bytes()[1'234'567], std::byte{0});
}

TEST_F(File, NothingIsLostWithoutCommit) {
  const Path path = folder_ / "a";
  write_file(path, "old");
  {
    FileWriter writer(path);
    writer.write("new", 3);
    EXPECT_EQ(writer.written(), 3);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
}

TEST_F(File, PiecesOfAnySizeAreKeptInOrder) {
  const Path path = folder_ / "a";
  std::string want;
  FileWriter writer(path);
  for (size_t n : {1u, 5000u, 1048576u, 3u, 2000000u, 1048575u, 2u}) {
    const std::string piece(n, static_cast<char>('a' + n % 26));
    writer.write(piece.data(), n);
    want += piece;
  }
  writer.commit();
  EXPECT_EQ(read_file(path), want);
}

TEST_F(File, ErrorsNameTheFileAndTheReason) {
  const std::string missing = (folder_ / "none").string();
  EXPECT_EQ(error_of([&] { read_file(missing); }),
            missing + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { read_file(folder_); }),
            folder_.string() + ": is a folder, wanted a file");
  EXPECT_EQ(error_of([&] { MappedFile m(folder_); }),
            folder_.string() + ": is a folder, wanted a file");
  EXPECT_NE(error_of([&] { write_file(folder_ / "no" / "a", "x"); }).find("cannot be created"),
            std::string::npos);
}

TEST_F(File, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  fs::create_symlink("/dev/full", folder_ / "a.part");
  write_file(folder_ / "b", "old");
  EXPECT_NE(error_of([&] { write_file(folder_ / "a", "x"); }).find("No space left on device"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_FALSE(fs::is_symlink(folder_ / "a.part"));
}

TEST_F(File, AnEmptyFileIsEmpty) {
  write_file(folder_ / "a", "");
  EXPECT_EQ(read_file(folder_ / "a"), "");
  EXPECT_TRUE(MappedFile(folder_ / "a").bytes().empty());
}

// A mapped file that is cut while it is read: zeros instead of a SIGBUS, and an Error.
TEST_F(File, M9_ACutMappedFileIsAnError) {
  const Path path = folder_ / "a";
  write_file(path, std::string(100'000, 'x'));
  {
    const MappedFile mapped(path);
    EXPECT_NO_THROW(require_mapped_reads());
    std::filesystem::resize_file(path, 10'000);
    EXPECT_EQ(mapped.bytes()[50'000], std::byte{0});
    EXPECT_EQ(error_of([] { require_mapped_reads(); }).find(path.string() + ": cannot be read"),
              0u);
    EXPECT_NO_THROW(require_mapped_reads());  // told once
  }
  const MappedFile again(path);
  EXPECT_EQ(again.bytes()[9'000], std::byte{'x'});
}

}  // namespace
}  // namespace tessera
