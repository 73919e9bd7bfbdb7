// The log of a run: short lines for people on the terminal, the same with time and level in a file.
// Passed to the code that needs it; thread safe; every line is written before write() returns, or
// kept until it can be.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace tessera {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };
enum class LogTerminal : uint8_t { kOff, kOut, kErr };  // kErr where standard output holds JSON

class Log {
 public:
  explicit Log(LogTerminal terminal);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // From now on appends to this file too. Throws Error if it cannot be opened. Later failures are
  // one warning on standard error; the lines are written when that is possible (append_file.h).
  void open(const Path& file);

  // Text may have several lines; warnings and errors begin with "warning: " or "error: ".
  void write(LogLevel level, std::string_view text);
  template <class... A>
  void info(fmt::format_string<A...> format, A&&... a) {
    write(LogLevel::kInfo, fmt::format(format, std::forward<A>(a)...));
  }
  template <class... A>
  void warning(fmt::format_string<A...> format, A&&... a) {
    write(LogLevel::kWarning, fmt::format(format, std::forward<A>(a)...));
  }
  template <class... A>
  void error(fmt::format_string<A...> format, A&&... a) {
    write(LogLevel::kError, fmt::format(format, std::forward<A>(a)...));
  }

 private:
  struct Sinks;  // the library's types stay in log.cc
  std::unique_ptr<Sinks> sinks_;
};

// ---- Lines for people on a terminal or a pipe.

// Writes `text` and flushes. Text that cannot be written is dropped: the reader of the pipe has
// ended, or the disk under the file is full. Leaves no error on `file`.
void print_to(std::FILE* file, std::string_view text) noexcept;

// Whether `file` is a pipe or socket that no process reads any more.
bool reader_is_gone(std::FILE* file) noexcept;

// Opens /dev/null as each of the descriptors 0 to 2 that is closed, so that no other file gets its
// number and receives what is printed.
void open_standard_files() noexcept;

}  // namespace tessera
