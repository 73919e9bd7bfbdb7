// Reads rows of Parquet files as trees: texts, numbers, flags, lists and structs of them.
//
// What writers of datasets produce is supported: the codecs none, Snappy, gzip, zstd and LZ4_RAW;
// data pages of versions 1 and 2; dictionaries; plain and delta encodings. Everything else is
// rejected by name. Rows are read one after another; memory holds a page and a dictionary of each
// column that is read, never a whole row group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tree.h"
#include "data/parquet_column.h"

namespace tessera::data {

// Returns true if a file of this name is a Parquet file.
bool named_parquet(std::string_view name);

class ParquetFile {
 public:
  // Reads the metadata. `only`: the columns that are read, by the names of the fields of a row;
  // empty: all whose type is supported. Throws Error that names the file if it is not a Parquet
  // file, if it is damaged, or if a column of `only` is missing or has an unsupported type.
  explicit ParquetFile(const std::string& name, const std::vector<std::string>& only = {});
  ~ParquetFile();
  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;

  const std::string& name() const { return name_; }
  int64_t rows() const { return metadata_.rows; }
  // Reads the next row: an object with a member per column, in the order of the schema. Returns
  // false at the end. Throws Error that names the file and the row.
  bool next(Tree& row);
  int64_t row() const { return row_; }  // number of the last row, from 1
  int64_t file_bytes() const { return file_.size(); }
  // Returns the bytes of the file that were read so far, of row groups as a whole.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  class RowReader;
  void open_group();

  std::string name_;
  DataFile file_;
  ParquetMetadata metadata_;
  std::vector<const ParquetNode*> fields_;  // the fields that are read
  size_t group_ = 0;                        // the next row group
  int64_t left_ = 0;                        // rows of the open group
  int64_t row_ = 0, bytes_read_ = 0;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace tessera::data
