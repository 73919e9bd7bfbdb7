// What every verb that takes a RUN does first.
#pragma once

#include "config/run_config.h"

namespace tessera::cli {

// Reads the run file with the command line's key=value over it, and checks it. `path` may be a run
// directory: its run.yaml is read, with run.directory set to it. `small`: the scaled-down run, with
// key=value over that, and without missing validation data.
config::RunConfig open_run(const std::string& path, std::span<const std::string> overrides,
                           bool small = false, config::DataUse use = config::DataUse::kRead);

// Throws Error if a file that a key or an option names does not exist: names both, and the
// folder in which it was looked for.
void require_file(const std::string& key, const std::string& file);

// Throws Error if `file`, which a key or an option names, is neither a task file nor a task that
// the program contains: lists these.
void require_task(const std::string& key, const std::string& file);

// Refuses a run that leaves its layout to be found (`layout.search: true`), where `verb` needs one.
void require_layout(const config::RunConfig& config, const char* verb);

}  // namespace tessera::cli
