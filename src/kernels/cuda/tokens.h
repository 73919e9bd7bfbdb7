// Launchers of kernels that go by tokens: tables of embeddings, rotation by position, losses. What
// each computes stands in the header of kernels/ that it is named after.
#pragma once

#include "kernels/cuda/groups.h"
#include "tensor/stream.h"

namespace tessera::kernels::cuda {

// An id outside of [0, total) gives a row of NaN, and no gradient.
struct TableWork {
  const int32_t* ids = nullptr;
  int64_t tokens = 0, columns = 0, rows = 0;  // of the table
  int64_t first = 0, total = 0;
  bool vector = false;
  Numbers table, y;     // of the forward
  Numbers dy, d_table;  // of the gradient
};
void launch_embedding(const TableWork& a, Stream s);
void launch_embedding_grad(const TableWork& a, Stream s);

constexpr int kMostRotaryPairs = 128;  // dims / 2

struct RotaryWork {
  Numbers qkv;  // [tokens, groups, slots, d]; all slots but the last turn
  const int32_t* positions = nullptr;
  int64_t tokens = 0, groups = 0, slots = 0, d = 0, half = 0;
  bool inverse = false, vector = false;
  float* table = nullptr;  // [tokens, 2, half]: cosines, sines
  float frequency[kMostRotaryPairs] = {};
};
void launch_rotary(const RotaryWork& a, Stream s);

// Rows of logits, or this rank's columns of them.
struct LossWork {
  float* z = nullptr;  // [rows, width]
  int64_t rows = 0, width = 0;
  int64_t columns = 0, first = 0, total = 0;  // of `width` there, of the whole
  bool vector = false;
  const int32_t* labels = nullptr;
  double* losses = nullptr;  // [rows]
  double* report = nullptr;  // [0] += loss, [1] += rows that count; or none
  bool gradient = false;
  Numbers dz;  // [rows, width]: z itself, or elsewhere
  float scale = 1;
  const double* loss_scale = nullptr;  // times `scale`
  float* max = nullptr;                // [rows], divided alone
  float* sums = nullptr;               // [rows, 2]
};
void launch_loss(const LossWork& a, Stream s);  // whole rows
void launch_logits_max(const LossWork& a, Stream s);
void launch_logits_sums(const LossWork& a, Stream s);
void launch_divided_loss(const LossWork& a, Stream s);

}  // namespace tessera::kernels::cuda
