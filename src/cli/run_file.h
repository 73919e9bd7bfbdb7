// What every verb that takes a RUN does first.
#pragma once

#include "train/run_config.h"

namespace tessera {

// Reads the run file with the command line's key=value over it, and checks it. `path` may be a run
// directory: then it is the run.yaml in it, with that directory. `small`: its small twin, with
// key=value over that, and without validation data that is not there.
RunConfig open_run(const std::string& path, std::span<const std::string> overrides,
                   bool small = false, DataUse use = DataUse::kRead);

// Refuses a run that leaves its layout to be found (`layout.search: true`), where `verb` needs one.
void require_layout(const RunConfig& config, const char* verb);

}  // namespace tessera
