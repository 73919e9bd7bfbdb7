// One row of a micro-batch, and who fills it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace tessera {

// A label that no loss counts.
constexpr int32_t kIgnoredLabel = -100;
// The document of places that hold no token.
constexpr int32_t kNoDocument = -1;

struct SampleRow {
  std::span<int32_t> tokens;     // [T]  what the (decoder of the) model reads
  std::span<int32_t> labels;     // [T]  what it is to say at each place, or kIgnoredLabel
  std::span<int32_t> positions;  // [T]  0 … T − 1, or from 0 in each document
  std::span<int32_t> documents;  // [T]  which of the row's documents, from 0; kNoDocument behind
  std::span<int32_t> source;     // [S]  what an encoder reads; S = 0: there is none
};

// Writes every element of the row. A pure function of the sample's number.
using RowReader = std::function<void(int64_t sample, const SampleRow& row)>;

// The row of at most T + 1 tokens that follow each other, one document: labels are the next tokens.
// Where they are fewer, the rest is token 0 and kIgnoredLabel.
void fill_row(std::span<const int32_t> ids, const SampleRow& row);

// Token 0, kIgnoredLabel and kNoDocument from place `from` on.
void clear_row(size_t from, const SampleRow& row);

}  // namespace tessera
