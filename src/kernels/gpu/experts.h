// The table of tiles of the experts, and GEMMs on the rows of tiles.
#pragma once

#include "kernels/gpu/activation.h"
#include "kernels/gpu/operand.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// The rows of each expert fill tiles of kTileRows; the last tile of an expert may have fewer. With
// N pairs and E experts there are at most E + (N - E) / kTileRows tiles.
constexpr int kTileRows = 64;

struct Tiles {
  const int32_t* choice = nullptr;  // [pairs]
  int64_t pairs = 0, chosen = 0, experts = 0, first = 0;
  int64_t bound = 0;           // maximum number of tiles
  int32_t* counts = nullptr;   // [E]  rows of each expert
  int32_t* begin = nullptr;    // [E + 1]  its first tile
  int32_t* of_tile = nullptr;  // [bound]  the expert, or -1 for an unused tile
  int32_t* rows = nullptr;     // [bound · kTileRows]  the pair of each row, or -1
  int32_t* row_of = nullptr;   // [pairs]  the row of each pair, or -1 for experts of other ranks
};
int64_t most_tiles(int64_t pairs, int64_t experts);
void launch_tiles(const Tiles& tiles, Stream s);

// A range of tiles that are processed together. Row 0 of its buffers is the first row of
// first_tile.
struct Wave {
  Tiles tiles;
  int64_t first_tile = 0, count = 0;
};

// C[row, n] = Σ_k A[row, k] B[k, n], with B of the row's expert: [K, N], or [N, K] transposed.
struct RowProduct {
  Wave wave;
  Numbers a, b, c;
  bool gathers = false;  // A is [tokens, K], read by the token of a row; else a buffer of rows
  bool transposed = false;
  int64_t n = 0, k = 0;
};
void launch_row_product(const RowProduct& p, Stream s);

// C_e[m, n] += Σ over the expert's rows of A[row, m] B[row, n], in their order.
struct ExpertProduct {
  Wave wave;
  Numbers a, b, c;
  bool gathers_a = false, gathers_b = false;
  int64_t m = 0, n = 0;
};
void launch_expert_product(const ExpertProduct& p, Stream s);

}  // namespace tessera::kernels::gpu
