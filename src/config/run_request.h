// Translates a run file to the requests of the compiler and of the batch reader.
#pragma once

#include "compile/request.h"
#include "config/run_config.h"
#include "data/batches.h"

namespace tessera::config {

// Tokens of a decoder's sequence: data.target_length, or the number that span corruption makes.
int64_t target_tokens(const DataSection& data);

compile::CompileRequest compile_request(const RunConfig& config, compile::ProgramKind kind);

// Tokens per row of the batch, of encoder and decoder together.
int64_t row_tokens(const RunConfig& config);

// Which samples each step reads; `rank`: the data-parallel rank.
data::BatchShape batch_shape(const RunConfig& config, int64_t rank);

}  // namespace tessera::config
