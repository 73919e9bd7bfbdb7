// Keys and values of run files that earlier versions had under other names.
//
// A run file with an old name is rejected with a message that states the new one. What an earlier
// version of this program has stored (checkpoint headers, run.yaml of a run directory) is
// translated when it is read.
#pragma once

#include <string>
#include <string_view>

#include "base/tree.h"

namespace tessera {

// Returns the present path of a key that was renamed, such as "schedule.min_lr_ratio" for
// "schedule.floor"; empty if the key was not renamed.
std::string renamed_path(std::string_view path);

// Returns the present name of a value of a key that was renamed, such as "unfused" for
// "materialised" of "compiler.attention"; empty if it was not. The key has its present name, or an
// old one.
std::string renamed_value(std::string_view path, std::string_view value);

// Returns advice for an old key, such as "compiler.full_recompute (whole is now all)"; empty if the
// key was not renamed.
std::string renamed_advice(std::string_view path);

// Returns a stored configuration with the present names of its keys and values. `section` is
// "model" for the tree of that section alone, and empty for a whole configuration.
Tree with_present_names(Tree stored, std::string_view section = {});

}  // namespace tessera
