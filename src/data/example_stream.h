// Reads the examples of instruction and chat data: JSON Lines, one JSON list per file, or Parquet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tree.h"
#include "data/documents.h"

namespace tessera::data {

struct JsonExample {
  Tree tree;
  int64_t source = 0;  // index into ExampleStream::sources()
  int64_t line = 0;    // line in which it starts, from 1
};

// Files may be compressed, and folders stand for the files in them. Empty lines are skipped. A file
// whose first character is [ is a list, which is read into memory as a whole.
class ExampleStream {
 public:
  explicit ExampleStream(const std::vector<std::string>& files);

  // Reads the next example; returns false at the end. Throws Error with file, line and column.
  bool next(JsonExample& out);

  const std::vector<std::string>& sources() const { return stream_.sources(); }

 private:
  bool next_line(Document& out);
  void read_list(Document line);

  DocumentStream stream_;
  std::optional<Document> ahead_;  // the first line after a list
  int64_t source_ = -1;            // source of the last line
  Tree::List list_;                // the elements of a list
  size_t list_at_ = 0;             // the next of them
};

}  // namespace tessera::data
