// Decodes the bytes of a page: levels, indices of a dictionary, and values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/parquet_metadata.h"

namespace tessera::data {

// The hybrid of run lengths and bit packing, of integers of `width` bits. Runs are not expanded, so
// memory does not grow with the number of values.
class HybridReader {
 public:
  HybridReader() = default;
  HybridReader(std::string_view bytes, int width);  // REQUIRES: 0 <= width <= 32
  // Returns the next value. Throws Error if the bytes end.
  uint32_t next();

 private:
  void next_run();

  std::string_view bytes_;
  int width_ = 0;
  size_t at_ = 0;
  uint64_t left_ = 0;  // values of the run that are left
  bool packed_ = false;
  uint32_t value_ = 0;     // the value of a run of equal ones
  uint64_t next_bit_ = 0;  // position in a packed run
  size_t run_ = 0;         // where a packed run begins
};

// A value that is not null. Texts refer to the bytes of the page or of the dictionary.
using ParquetValue = std::variant<std::string_view, int64_t, double, bool>;

// Reads the values of a page one after another.
class PageValues {
 public:
  virtual ~PageValues() = default;
  virtual ParquetValue next() = 0;
};

// Returns a reader of `count` values at most. `bytes` and `dictionary` must outlive it. Throws
// Error for an encoding that is not supported for the column, and for bytes that are not of it.
std::unique_ptr<PageValues> page_values(const ParquetNode& column, ParquetEncoding encoding,
                                        std::string_view bytes, int64_t count,
                                        const std::vector<ParquetValue>& dictionary);

// Reads all values of a dictionary, which are plain. Each has at least one bit.
std::vector<ParquetValue> read_dictionary(const ParquetNode& column, std::string_view bytes,
                                          int64_t count);

}  // namespace tessera::data
