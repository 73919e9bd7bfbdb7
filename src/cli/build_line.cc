// The progress line of a build. Standard error gets it: standard output is for the result. The time
// left assumes that the bytes still to be read take as long as those before, and is shown from 1 %
// on, where the rate is no longer dominated by the start.
#include "cli/build_line.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/show.h"
#include "train/progress.h"

namespace tessera {
namespace {

constexpr double kTerminalPeriod_s = 0.2, kFilePeriod_s = 30;
constexpr double kShort_s = 1;  // a build that is done by then needs no line in a file

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string human_bytes(int64_t n) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto x = static_cast<double>(n);
  size_t unit = 0;
  while (x >= 999.5 && unit + 1 < std::size(kUnits)) {
    x /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", n) : fmt::format("{:.3g} {}", x, kUnits[unit]);
}

double share(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

BuildLine::BuildLine() : terminal_(isatty(STDERR_FILENO) != 0), began_s_(steady_s()) {}

BuildLine::~BuildLine() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

double BuildLine::seconds() const { return steady_s() - began_s_; }

void BuildLine::show(const BuildProgress& p) {
  const double now = seconds();
  if (now < next_s_ || (!terminal_ && now < kShort_s)) return;
  next_s_ = now + (terminal_ ? kTerminalPeriod_s : kFilePeriod_s);
  const double done = share(p.bytes_read, p.bytes_total);
  std::string line;
  if (p.bytes_total > 0) line = format_bar(done, 20) + fmt::format(" {:.0f} %  ", 100 * done);
  line += fmt::format("{}  {}  {} per second", counted(p.documents, "document"),
                      counted(p.tokens, "token"),
                      human_bytes(static_cast<int64_t>(static_cast<double>(p.text_bytes) / now)));
  if (p.bytes_total > 0 && done > 0.01)
    line += "  left " + format_duration(now * (1 - done) / done);
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
  shown_ = terminal_;
}

}  // namespace tessera
