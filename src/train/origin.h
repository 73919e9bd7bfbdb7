// The checkpoint that supplies what a run file leaves out: the model section and the tokenizer.
#pragma once

#include "base/file.h"
#include "config/run_config.h"

namespace tessera {

// Returns the checkpoint that checkpoint.from names, or, if that one cannot be read any more, the
// newest checkpoint of the run itself. Throws Error where neither is readable.
Path origin_checkpoint(const RunConfig& config);

// Returns the model of that checkpoint, for a run file without a model section. Its preset is
// empty, since all values are given.
ModelConfig origin_model(const RunConfig& config);

// Returns the tokenizer file of the run: data.tokenizer, or, if that is empty, the tokenizer inside
// the checkpoint. Throws Error where there is none.
Path tokenizer_of_run(const RunConfig& config);

}  // namespace tessera
