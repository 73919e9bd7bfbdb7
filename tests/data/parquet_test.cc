// Reads the small files of golden_parquet, which pyarrow 26 wrote (scripts/check_parquet.py
// --goldens), and compares every row with rows.jsonl; and damaged files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "data/example_stream.h"
#include "data/parquet_file.h"

namespace tessera::data {
namespace {

const Path kGoldens = Path(TEST_DATA) / "golden_parquet";

std::vector<std::string> rows_of(const std::string& file,
                                 const std::vector<std::string>& only = {}) {
  ParquetFile table(file, only);
  std::vector<std::string> rows;
  for (Tree row; table.next(row);) rows.push_back(to_json(row));
  EXPECT_EQ(std::ssize(rows), table.rows());
  return rows;
}

std::vector<std::string> expected() {
  std::vector<std::string> rows;
  const Path file = kGoldens / "rows.jsonl";
  for (const Tree& t : parse_json_lines(read_file(file), file.string())) rows.push_back(to_json(t));
  return rows;
}

std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
}

class ParquetTest : public testing::Test {
 protected:
  ParquetTest() { std::filesystem::create_directories(folder_); }
  ~ParquetTest() override { std::filesystem::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;  // write_file() waits for the disk
    return (folder_ / name).string();
  }
  Path folder_ =
      std::filesystem::temp_directory_path() / ("tessera_parquet_" + std::to_string(::getpid()));
};

class Codecs : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Codecs, testing::Values("none", "snappy", "gzip", "zstd", "lz4"));

TEST_P(Codecs, RowsAreThoseOfPyarrow) {
  const std::vector<std::string> want = expected();
  for (const char* version : {"1", "2"})
    EXPECT_EQ(rows_of((kGoldens / fmt::format("{}_{}.parquet", GetParam(), version)).string()),
              want)
        << version;
}

TEST_F(ParquetTest, TextsOfEveryEncoding) {
  std::vector<std::string> want;
  const Path file = kGoldens / "rows.jsonl";
  for (const Tree& t : parse_json_lines(read_file(file), file.string())) {
    Tree row;
    row.set("text", *t.find("text"));
    row.set("n", *t.find("n"));
    want.push_back(to_json(row));
  }
  for (const char* name : {"plain", "delta_length_byte_array", "delta_byte_array"})
    EXPECT_EQ(rows_of((kGoldens / fmt::format("{}.parquet", name)).string()), want) << name;
}

TEST_F(ParquetTest, OnlyTheColumnsAskedForAreRead) {
  const std::string file = (kGoldens / "zstd_2.parquet").string();
  EXPECT_EQ(rows_of(file, {"n"}),
            (std::vector<std::string>{"{\"n\":1}", "{\"n\":null}", "{\"n\":-7}",
                                      "{\"n\":1099511627776}"}));
  expect_in("there is no column 'body'; it has text, n, ok, x, messages, tags",
            refused([&] { rows_of(file, {"body"}); }));
}

TEST_F(ParquetTest, WhatIsNotSupportedIsRejectedByName) {
  expect_in("compressed with Brotli",
            refused([] { rows_of((kGoldens / "brotli.parquet").string()); }));
  const std::string date = (kGoldens / "date.parquet").string();
  EXPECT_EQ(rows_of(date), std::vector<std::string>{"{\"text\":\"a\"}"});
  expect_in("column 'day' has a date", refused([&] { rows_of(date, {"day"}); }));
  expect_in("does not end with PAR1",
            refused([&] { rows_of(put("a.parquet", "PAR1 and then some text")); }));
  expect_in("is encrypted", refused([&] { rows_of(put("a.parquet", "PARE.......\x04PARE")); }));
}

TEST_F(ParquetTest, ANumberWithoutASignByItsLogicalTypeAlone) {
  EXPECT_EQ(rows_of((kGoldens / "logical_unsigned.parquet").string()),
            std::vector<std::string>{"{\"n\":4000000000}"});
}

// The repeated group of the list is a list itself, so it is the element and not a wrapper of it.
TEST_F(ParquetTest, AListWhoseRepeatedGroupIsAList) {
  EXPECT_EQ(rows_of((kGoldens / "list_of_lists.parquet").string()),
            std::vector<std::string>{"{\"a\":[[5]]}"});
}

// No byte of a file may lead to anything but rows or an Error.
TEST_F(ParquetTest, DamagedFilesAreErrors) {
  for (const char* name : {"snappy_1", "zstd_2", "delta_byte_array"}) {
    const std::string bytes = read_file(kGoldens / fmt::format("{}.parquet", name));
    int errors = 0;
    for (size_t i = 0; i < bytes.size(); i += 23) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      const std::string file = put("damaged.parquet", damaged);
      try {
        ParquetFile table(file);
        int64_t rows = 0;
        for (Tree row; rows < 100 && table.next(row);) ++rows;
      } catch (const Error& e) {
        expect_in("damaged.parquet", e.what());
        ++errors;
      }
    }
    EXPECT_GT(errors, 0) << name;
    // A cut file has no footer.
    expect_in("a.parquet", refused([&] { rows_of(put("a.parquet", bytes.substr(0, 300))); }));
  }
}

TEST_F(ParquetTest, IsReadWhereJsonLinesAre) {
  const std::string file = (kGoldens / "snappy_2.parquet").string();
  ExampleStream examples({file});
  JsonExample e;
  std::vector<std::string> rows;
  while (examples.next(e)) rows.push_back(to_json(e.tree));
  EXPECT_EQ(rows, expected());
  EXPECT_EQ(e.line, 4);

  DocumentStream documents(list_sources({file}), {.skip_bad = 1});
  std::vector<std::string> texts;
  for (Document d; documents.next(d);) texts.push_back(d.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"The first document.", "", "Größe €😀\nline"}));
  EXPECT_EQ(documents.bad_lines(), 1);
  expect_in("row 3: 'text' is null, expected a text", documents.first_bad());
}

}  // namespace
}  // namespace tessera::data
