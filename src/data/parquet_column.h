// Reads the values of one column of one row group, page by page.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/data_file.h"
#include "data/parquet_values.h"

namespace tessera::data {

// A cursor over the values of a column chunk, with nulls and empty lists, each with its levels.
// Memory holds one page and the dictionary.
class ParquetColumn {
 public:
  // All must outlive the cursor.
  ParquetColumn(const DataFile& file, const ParquetNode& column, const ColumnChunk& chunk);

  // Returns true if there is another value. The levels below are those of the next value.
  bool has_next();
  // REQUIRE: has_next().
  int definition() const { return definition_; }
  int repetition() const { return repetition_; }
  bool is_null() const { return definition_ < column_.definition; }
  // Consumes the next value. If it is not null, it is valid until the next call.
  ParquetValue take();

  int64_t bytes_read() const { return at_ - chunk_.begin; }  // bytes of the file

 private:
  bool next_page();
  PageHeader read_header();
  void begin_page(const PageHeader& h, std::string stored);
  void load_levels();
  std::string read(int64_t at, int64_t count) const;

  const DataFile& file_;
  const ParquetNode& column_;
  const ColumnChunk& chunk_;
  int64_t at_ = 0;       // the next page in the file
  int64_t values_ = 0;   // values that are left in the chunk, those in the page included
  int64_t in_page_ = 0;  // values that are left in the page
  bool loaded_ = false;  // the levels of the next value are known
  int definition_ = 0, repetition_ = 0;
  std::string page_, dictionary_page_;
  std::vector<ParquetValue> dictionary_;
  HybridReader definitions_, repetitions_;
  std::unique_ptr<PageValues> reader_;
};

}  // namespace tessera::data
