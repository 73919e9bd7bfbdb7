// Whether a layout fits a model and a batch: what can be said from their sizes, before anything is
// compiled.
//
//   every size is at least 1; context is 1
//   expert      divides data and the model's experts
//   tensor      divides heads and feed_forward; with sequence_parallel the tokens too. Where it
//               does not divide kv_heads, these have copies
//   data        times micro divides the global batch; zero_group divides data / expert
//   pipeline    at most layers + 1 chunks (pipeline × interleave), whose layers `stages` names
//   zero        0 to 3
#pragma once

#include "compile/request.h"

namespace tessera::compile {

struct BatchSizes {
  int64_t global = 0;  // sequences of a step; 0: whatever the layout makes of it
  int64_t micro = 1;   // of a micro-batch of one data rank
  int64_t tokens = 1;  // of a sequence
  int64_t source = 0;  // of an encoder's; 0: there is none
};

// Throws Error that names the key, the numbers and the nearest that are possible:
//   "layout.tensor = 3 does not divide heads = 16. Possible here: 1, 2, 4, 8, 16."
void check_layout(const model::ModelConfig& model, const Layout& layout, const BatchSizes& batch);

// Whether what else is asked for can do with copies of key/value heads: Adafactor, whose means are
// of rows and columns of whole weights, and adapters cannot. Throws Error.
void check_head_copies(const CompileRequest& request);
bool can_copy_heads(const CompileRequest& request);

}  // namespace tessera::compile
