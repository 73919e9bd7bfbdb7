// `tessera eval --preferences`: a checkpoint of a preference objective, or a reward model, on pairs
// of answers.
#pragma once

#include <string>
#include <vector>

#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "cli/eval_data.h"
#include "comm/world.h"
#include "eval/language_model.h"

namespace tessera::cli {

struct EvalPreferencesOptions {
  std::vector<std::string> files;  // preference data, as in training
  std::string reference;           // checkpoint of the reference model; empty: what the run has
  std::string scores_file;         // JSON Lines file for the rewards of each answer; empty: none
};

// Adds the loss and the figures of the answers (docs/objectives.md) on each file to `results`, and
// prints them as a line unless `quiet`. `rows` has the length of rows, what happens to longer
// pairs, and the number of pairs. Returns the lines of the scores file. The reference model is
// loaded and released before the checkpoint's own. Collective: every rank of `world` calls it with
// the same arguments. Throws Error for a checkpoint of another objective, and where the reference
// model is not known; NumericError for a loss that is not finite.
std::string score_preferences(const EvalPreferencesOptions& o, const EvalDataOptions& rows,
                              checkpoint::CheckpointReader& reader, const eval::ModelOptions& model,
                              comm::World& world, bool quiet, Tree& results);

}  // namespace tessera::cli
