// The log of a run: short lines for people on the terminal, and the same lines with time and level
// in a file. It is passed to the code that needs it. Thread safe. Every line is written before
// write() returns, or kept until it can be written.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace tessera {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };
enum class LogTerminal : uint8_t { kOff, kOut, kErr };  // kErr: standard output is used for JSON

class Log {
 public:
  explicit Log(LogTerminal terminal);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Makes later lines go to this file too. Throws Error if it cannot be opened. A later failure
  // prints one warning on standard error, and the lines are written when that is possible
  // (append_file.h).
  void open(const Path& file);

  // Writes a text, which may have several lines. Warnings and errors are prefixed with "warning: "
  // or "error: ".
  void write(LogLevel level, std::string_view text);
  // Writes a line to the log file but not to the terminal, which shows it in another form.
  void record(std::string_view text);
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
  struct Sinks;  // hides the types of spdlog
  std::unique_ptr<Sinks> sinks_;
};

// ---- Lines for people on a terminal or a pipe.

// Writes `text` and flushes `file`. Text that cannot be written is dropped, because the reader of
// the pipe has ended or the disk is full. Clears the error state of `file`. For lines that are also
// elsewhere, such as in the log of a run.
void print_to(std::FILE* file, std::string_view text) noexcept;

// Returns the message about standard output that cannot be written because of an errno (0:
// unknown).
std::string lost_output_message(int error);

// Flushes standard output. Throws Error if any of its text could not be written, unless its reader
// has gone, as that of `| head`.
void require_written_output();

// Returns whether `file` is a pipe or socket that no process reads any more.
bool reader_is_gone(std::FILE* file) noexcept;

// Opens /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise another file would
// get that number and receive the printed text. Writing to a standard output that was closed fails.
void open_standard_files() noexcept;

}  // namespace tessera
