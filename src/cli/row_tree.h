// Rows of training data as JSON.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tree.h"

namespace tessera::cli {

// Returns a list of the integers in a range.
template <class Range>
Tree list_of(const Range& values) {
  Tree list = Tree::list();
  for (const auto value : values) list.push(Tree(int64_t{value}));
  return list;
}

// Returns the row that the model receives for a sample. `Rows` is TrainingRowReader or
// TrainingData. The member "encoder" exists only for models with an encoder.
template <class Rows>
Tree row_tree(Rows& rows, int64_t sample) {
  const size_t length = rows.row_tokens();
  std::vector<int32_t> tokens(length), labels(length), positions(length), documents(length),
      source(rows.row_source());
  rows.read_row(sample, {tokens, labels, positions, documents, source});
  Tree row;
  row.set("tokens", list_of(tokens));
  row.set("labels", list_of(labels));
  row.set("positions", list_of(positions));
  row.set("documents", list_of(documents));
  if (!source.empty()) row.set("encoder", list_of(source));
  return row;
}

}  // namespace tessera::cli
