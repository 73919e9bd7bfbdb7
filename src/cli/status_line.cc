#include "cli/status_line.h"
#include "base/clock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/count.h"
#include "base/log.h"
#include "base/real.h"
#include "train/progress.h"

namespace tessera::cli {
namespace {

constexpr double kTerminalPeriod_s = 0.2, kFilePeriod_s = 30;
constexpr double kShort_s = 1;

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

void ShareLine::show(int64_t done, int64_t all) {
  if (last_ == 0 || done < last_) {
    first_ = done;
    began_s_ = status_.seconds();
  }
  last_ = done;
  if (all > 0 && done >= all) {
    last_ = 0;
    return status_.erase();
  }
  if (all == 0 || !status_.is_due()) return;
  const double share = ratio(done, all);
  std::string line = fmt::format("{} {:.0f} %  {} of {}", train::format_bar(share, 20), 100 * share,
                                 format_count(done), format_count(all));
  if (done > first_)
    line += "  left " + train::format_duration((status_.seconds() - began_s_) *
                                               ratio(all - done, done - first_));
  status_.show(line);
}

}  // namespace tessera::cli
