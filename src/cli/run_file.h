// Opens the RUN argument of a command.
#pragma once

#include "config/run_config.h"

namespace tessera::cli {

// Reads the run file, applies the overrides key=value of the command line, and checks it. `path`
// may be a run directory: its run.yaml is read, with run.directory set to it. `small`: returns the
// scaled-down run, to which the overrides are applied, without validation data that are missing.
config::RunConfig open_run(const std::string& path, std::span<const std::string> overrides,
                           bool small = false, config::DataUse use = config::DataUse::kRead);

// Throws Error if a file that a key or an option names does not exist. The message contains the
// key, the file, and the folder that was searched.
void require_file(const std::string& key, const std::string& file);

// Throws Error if `name`, which a key or an option names, is neither a task file nor a task that
// the program contains. The message lists these.
void require_task(const std::string& key, const std::string& name);

// Throws Error if the run does not have a layout yet (`layout.search: true`), which the command
// `verb` needs.
void require_layout(const config::RunConfig& config, const char* verb);

}  // namespace tessera::cli
