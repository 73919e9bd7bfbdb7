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
// key, the file, the folder that was searched, and `hint`.
void require_file(const std::string& key, const std::string& file, const std::string& hint = "");

// The hint for a task that does not exist.
inline constexpr const char* kTaskHint =
    " Tessera's tasks are in its folder configs/tasks, such as configs/tasks/piqa.yaml.";

// Throws Error if the run does not have a layout yet (`layout.search: true`), which the command
// `verb` needs.
void require_layout(const config::RunConfig& config, const char* verb);

}  // namespace tessera::cli
