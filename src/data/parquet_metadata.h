// The metadata of a Parquet file: its schema as a tree of columns, and where the pages of each
// column of each row group are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/parquet_codec.h"

namespace tessera::data {

enum class ParquetType : int32_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedByteArray = 7
};
enum class Repetition : int32_t { kRequired = 0, kOptional = 1, kRepeated = 2 };

// How a column's values are used.
enum class ColumnKind : uint8_t {
  kText,
  kInteger,
  kReal,
  kBoolean,
  kOther  // dates, decimals, maps, …: not read
};

// A node of the schema. Levels count the optional and repeated nodes on the path from the root, as
// in Dremel (Melnik et al. 2010): a value is present if its definition level is that of its column.
struct ParquetNode {
  std::string name;
  Repetition repetition = Repetition::kRequired;
  ColumnKind kind = ColumnKind::kOther;  // if it is a column
  ParquetType type = ParquetType::kByteArray;
  bool is_list = false, is_map = false;
  bool is_unsigned = false;           // integers of a column
  int definition = 0, repeated = 0;   // largest levels
  int first_column = 0, columns = 1;  // the range of columns (leaves) below it
  std::vector<ParquetNode> children;  // empty: it is a column
};

struct ColumnChunk {
  ParquetCodec codec = ParquetCodec::kNone;
  ParquetType type = ParquetType::kByteArray;
  int64_t begin = 0, end = 0;  // bytes of the file that its pages have
  int64_t values = 0;          // with nulls
};
struct RowGroup {
  int64_t rows = 0;
  std::vector<ColumnChunk> columns;  // in the order of the leaves of the schema
};

struct ParquetMetadata {
  int64_t rows = 0;
  ParquetNode root;
  std::vector<const ParquetNode*> columns;  // the leaves of `root`
  std::vector<RowGroup> groups;

  ParquetMetadata() = default;
  ParquetMetadata(const ParquetMetadata&) = delete;
  ParquetMetadata& operator=(const ParquetMetadata&) = delete;
};

// Reads the metadata from the bytes of a footer. `data_end`: the end of the pages in the file.
// Throws Error if it is damaged: columns and pages are then within the file, and the schema is at
// most 32 levels deep. Encrypted files are rejected.
void read_metadata(std::string_view footer, int64_t data_end, ParquetMetadata& out);

// ---- Headers of pages.

enum class PageType : int32_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };
enum class ParquetEncoding : int32_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9
};
std::string name_of(ParquetEncoding encoding);

struct PageHeader {
  PageType type = PageType::kData;
  int64_t bytes = 0, stored_bytes = 0;  // uncompressed, and in the file
  int64_t values = 0;                   // with nulls
  ParquetEncoding encoding = ParquetEncoding::kPlain;
  ParquetEncoding definition_encoding = ParquetEncoding::kRle;
  ParquetEncoding repetition_encoding = ParquetEncoding::kRle;
  int64_t definition_bytes = 0, repetition_bytes = 0;  // only in version 2
  bool compressed = true;                              // version 2: whether the values are
  size_t header_bytes = 0;
};
// Reads the header at the front of `bytes`. Throws Error if it is damaged or not complete.
PageHeader read_page_header(std::string_view bytes);

}  // namespace tessera::data
