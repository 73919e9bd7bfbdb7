// Files in which Linux states the limits of this process's control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

// The folders of this process's control groups for one controller, innermost first; version 2 has
// one tree for all ("0::/path"), version 1 one per controller ("5:memory:/path").
std::vector<std::string> group_folders(const std::string& controller);

// Nothing where the file cannot be read.
std::optional<std::string> read_first_line(const std::string& path);

// The bytes that a text such as "512K" or "1048576" states.
int64_t parse_size(const std::string& text);

}  // namespace tessera
