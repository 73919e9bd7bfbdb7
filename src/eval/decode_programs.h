// Compiles the programs of BatchDecoder, which share one cache. Internal to the module.
//
// A rank's cache has a row per slot. A program reads a range of rows: one, or the first 2, 4, 8, …
// of a group. A chunk of a prompt is read by a program of its row.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "eval/language_model.h"
#include "ir/program.h"

namespace tessera::eval {

// Data-parallel ranks have the slots in turn: the rows of rank r of n are slots r, r + n, ….
struct SlotShare {
  int64_t ranks = 1, own = 0;
  int64_t row_of(int64_t slot) const { return slot / ranks; }
  int64_t rank_of(int64_t slot) const { return slot % ranks; }
  int64_t own_slot(int64_t row) const { return row * ranks + own; }
};

// The cache of a rank.
struct CacheRows {
  SlotShare share;
  int64_t rows = 1;     // rows of slots
  int64_t spare = 0;    // rows after them that no slot has
  int64_t context = 1;  // positions per row
  int64_t chunk = 1;    // tokens of a prompt that one program reads
  // The layers of each pipeline stage; none: there is one stage. All programs have the same, though
  // their layers may differ in cost.
  std::vector<int64_t> stages = {};
  int64_t all() const { return rows + spare; }
};
// Throws Error if options.layout is not one of options.world.
CacheRows cache_rows(const model::ModelConfig& model, const ModelOptions& options, int64_t slots,
                     int64_t context);

// Returns the request of a program that reads `tokens` tokens of each of `rows` rows.
compile::CompileRequest decode_request(const model::ModelConfig& model, const ModelOptions& options,
                                       const CacheRows& cache, int64_t rows, int64_t tokens);

// Programs read rows of one group only.
int64_t group_of_row(int64_t row);

// A program that reads `tokens` tokens of each of the rows first … first + rows - 1.
struct DecodeRange {
  int64_t first = 0, rows = 0, tokens = 1;
  size_t program = 0;
};
struct DecodeRanges {
  std::vector<DecodeRange> steps;   // one token per row, by number of rows, ascending
  std::vector<DecodeRange> chunks;  // by row
  // Returns the smallest step that reads the rows from `first` to `last`, which are of one group.
  const DecodeRange& step(int64_t first, int64_t last) const;
};

struct DecodePrograms {
  std::vector<Program> programs;  // the first one defines the state that the others share
  DecodeRanges ranges;
};
// `compiled` returns a program that reads that number of tokens of each of that number of rows.
DecodePrograms decode_programs(
    const CacheRows& cache, const std::function<Program(int64_t rows, int64_t tokens)>& compiled);

}  // namespace tessera::eval
