// The option --layout: how the ranks that mpirun started hold the model of a checkpoint.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "cli/arguments.h"
#include "comm/world.h"
#include "eval/language_model.h"

namespace tessera::cli {

void add_layout(Arguments& arguments, std::string& layout);

// Sets options.world and options.layout if the ranks hold the model together. Leaves them if there
// is one rank, or if each has a copy. `asked`: auto, run, copies, or degrees of parallelism. Throws
// UsageError for other text, Error for a layout of another number of ranks.
void divide_model(const std::string& asked, const checkpoint::CheckpointReader& reader,
                  comm::World& world, eval::ModelOptions& options);

}  // namespace tessera::cli
