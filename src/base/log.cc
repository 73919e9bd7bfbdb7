#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/error.h"
#include "base/printable.h"

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

}  // namespace

struct Log::Sinks {
  spdlog::logger terminal{"terminal"}, file{"file"};
};

Log::Log(LogTerminal terminal) : sinks_(std::make_unique<Sinks>()) {
  if (terminal == LogTerminal::kNone) return;
  spdlog::sink_ptr sink;
  if (terminal == LogTerminal::kOut)
    sink = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  else
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_pattern("%v");
  sinks_->terminal.sinks().push_back(std::move(sink));
  sinks_->terminal.flush_on(spdlog::level::trace);
}

Log::~Log() = default;

void Log::open(const Path& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
    sinks_->file.sinks().assign(1, std::move(sink));
    sinks_->file.flush_on(spdlog::level::trace);
  } catch (const spdlog::spdlog_ex& e) {
    throw Error("{}: the log cannot be opened: {}", file.string(), e.what());
  }
}

void Log::write(LogLevel level, std::string_view text) {
  const std::string line = prefix_of(level) + printable(text);
  sinks_->terminal.log(level_of(level), line);
  sinks_->file.log(level_of(level), line);
}

}  // namespace tessera
