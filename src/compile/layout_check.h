// Checks that a layout fits a model and a batch, from their sizes alone, before anything is
// compiled.
//
//   every size is at least 1
//   context     divides the tokens, with sequence_parallel context × tensor does; no encoder. With
//               context_method heads, context × tensor divides the heads
//   expert      divides data and the model's experts
//   tensor      divides heads and feed_forward. If it does not divide kv_heads, these are
//               replicated. With sequence_parallel it may divide any number of tokens: the last
//               parts have padding
//   data        times micro divides the global batch; zero_group divides data / expert
//   pipeline    at most layers + 1 chunks (pipeline × interleave); `stages` lists their layers
//   zero        0 to 3
#pragma once

#include "compile/request.h"

namespace tessera::compile {

struct BatchSizes {
  int64_t global = 0;  // sequences per step; 0: any number that the layout gives
  int64_t micro = 1;   // sequences per micro-batch of one data-parallel rank
  int64_t tokens = 1;  // tokens per sequence
  int64_t source = 0;  // tokens per encoder sequence; 0: no encoder
};

// Throws Error that names the key, the numbers and the nearest possible values:
//   "layout.tensor = 3 does not divide heads = 16. Possible here: 1, 2, 4, 8, 16."
void check_layout(const model::ModelConfig& model, const Layout& layout, const BatchSizes& batch);

// Returns true unless masks of attention dropout, which are generated four keys at a time, do not
// fit the blocks of keys that visit the ranks of a ring.
bool dropout_fits_ring(const model::ModelConfig& model, const Layout& layout, int64_t tokens);

// Throws Error if the request needs replicated key/value heads together with Adafactor or
// Muon, which compute with whole matrices, or with adapters: none of them supports it.
void check_head_copies(const CompileRequest& request);
bool can_copy_heads(const CompileRequest& request);

// Throws Error if the request learns from pairs of answers and tensor-parallel ranks would have
// padding: the sums over an answer would count it.
void check_preference(const CompileRequest& request);

// Throws Error if the blocks of lora.quantize, 64 weights each, do not fit the inputs of a layer's
// GEMMs, or the part of them that a tensor-parallel rank has.
void check_quantization(const CompileRequest& request);

}  // namespace tessera::compile
