#include "cli/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/log.h"

namespace tessera::cli {
namespace {

constexpr double kTerminalPeriod_s = 0.2, kFilePeriod_s = 30;
constexpr double kShort_s = 1;

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

StatusLine::StatusLine() : terminal_(isatty(STDERR_FILENO) != 0), began_s_(steady_s()) {}

StatusLine::~StatusLine() { erase(); }

double StatusLine::seconds() const { return steady_s() - began_s_; }

bool StatusLine::is_due() const {
  const double now = seconds();
  return now >= next_s_ && (terminal_ || now >= kShort_s);
}

void StatusLine::show(const std::string& line) {
  next_s_ = seconds() + (terminal_ ? kTerminalPeriod_s : kFilePeriod_s);
  print_to(stderr, fmt::format("{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n"));
  shown_ = terminal_;
}

void StatusLine::erase() {
  if (std::exchange(shown_, false)) print_to(stderr, "\r\x1b[K");
}

}  // namespace tessera::cli
