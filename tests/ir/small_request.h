// Two small layers to compile.
#pragma once

#include "compile/request.h"

namespace tessera::testing {

inline compile::CompileRequest small_request() {
  compile::CompileRequest r;
  r.model.layers = 2;
  r.model.hidden = 64;
  r.model.heads = 4;
  r.model.kv_heads = 4;
  r.model.feed_forward = 256;
  r.model.vocabulary = 128;
  r.model.context = 32;
  r.sequences = 2;
  r.tokens = 32;
  r.microbatches = 2;
  return r;
}

}  // namespace tessera::testing
