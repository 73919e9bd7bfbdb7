// Lines for people on a terminal or a pipe.
#pragma once

#include <cstdio>
#include <string_view>

namespace tessera {

// Writes `text` and flushes. Text that cannot be written is dropped: the reader of the pipe has
// ended, or the disk under the file is full. Leaves no error on `file`.
void print_to(std::FILE* file, std::string_view text) noexcept;

// Whether `file` is a pipe or socket that no process reads any more.
bool reader_is_gone(std::FILE* file) noexcept;

// Opens /dev/null as each of the descriptors 0 to 2 that is closed, so that no other file gets its
// number and receives what is printed.
void open_standard_files() noexcept;

}  // namespace tessera
