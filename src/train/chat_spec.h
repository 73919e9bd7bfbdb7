// The chat template of a run and what belongs to it.
#pragma once

#include "config/run_config.h"
#include "data/chat_encoder.h"

namespace tessera::train {

// Returns how a run reads chat data. Its template is data.chat_template; otherwise that of
// checkpoint.from; otherwise that in the folder of data.tokenizer; none if there is none. The names
// of special tokens and the tokens that end a turn come from the same folder and the tokenizer.
// Throws Error if the template is invalid or not supported, or if it differs from that of
// checkpoint.from and data.allow_other_template is not set.
data::ChatSpec chat_spec(const config::RunConfig& config, const data::Tokenizer& tokenizer);

}  // namespace tessera::train
