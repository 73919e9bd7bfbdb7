// The log of a run, with spdlog for levels, patterns and time stamps. The two sinks are our own, so
// that lines that a full disk rejects are kept until they can be written (append_file.h).
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/append_file.h"
#include "base/error.h"
#include "base/utf8.h"

namespace tessera {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

const char* prefix_of(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "";
    case LogLevel::kWarning:
      return "warning: ";
    case LogLevel::kError:
      return "error: ";
  }
  return "";
}

// Neither sink reports failures to spdlog, which would print its own message.
class TerminalSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit TerminalSink(std::FILE* file) : file_(file) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    print_to(file_, {line.data(), line.size()});
  }
  void flush_() override {}

 private:
  std::FILE* file_;
};

class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(const Path& file) : file_(file) {
    if (const auto failed = file_.take_report()) throw Error("the log: {}", *failed);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_.append({line.data(), line.size()});
    if (const auto report = file_.take_report())
      print_to(stderr, fmt::format("warning: {}\n", *report));
  }
  void flush_() override {}

 private:
  AppendFile file_;
};

}  // namespace

struct Log::Sinks {
  spdlog::logger terminal{"terminal"}, file{"file"};
};

Log::Log(LogTerminal terminal) : sinks_(std::make_unique<Sinks>()) {
  if (terminal == LogTerminal::kOff) return;
  const bool out = terminal == LogTerminal::kOut;
  auto sink = std::make_shared<TerminalSink>(out ? stdout : stderr);
  sink->set_pattern("%v");
  sinks_->terminal.sinks().push_back(std::move(sink));
}

Log::~Log() = default;

void Log::open(const Path& file) {
  auto sink = std::make_shared<FileSink>(file);
  sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
  sinks_->file.sinks().assign(1, std::move(sink));
}

void Log::write(LogLevel level, std::string_view text) {
  // A message may contain text from a file or another host, so terminal control characters are
  // escaped.
  const std::string line = prefix_of(level) + printable(text);
  sinks_->terminal.log(level_of(level), line);
  sinks_->file.log(level_of(level), line);
}

void Log::record(std::string_view text) { sinks_->file.info(printable(text)); }

void print_to(std::FILE* file, std::string_view text) noexcept {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  if (!written) std::clearerr(file);
}

std::string lost_output_message(int error) {
  return fmt::format("standard output cannot be written: {}", error == EBADF ? "it is closed"
                                                              : error != 0   ? std::strerror(error)
                                                                             : "a write failed");
}

void require_written_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  // A failed write may have been an earlier one, whose errno is not known.
  if (!reader_is_gone(stdout)) throw Error("{}", lost_output_message(errno));
}

bool reader_is_gone(std::FILE* file) noexcept {
  pollfd out = {::fileno(file), POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

void open_standard_files() noexcept {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns the lowest free number, which is `fd`, since all lower ones are open. Lost
    // results are an error (require_written_output), lost messages are not.
    if (::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace tessera
