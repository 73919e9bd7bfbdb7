// What `tessera data build` shows while it works.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "base/count.h"
#include "data/dataset_builder.h"
#include "train/progress.h"

namespace tessera {

inline std::string human_bytes(int64_t n) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB"};
  double x = static_cast<double>(n);
  size_t unit = 0;
  while (x >= 999.5 && unit + 1 < std::size(kUnits)) {
    x /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", n) : fmt::format("{:.3g} {}", x, kUnits[unit]);
}

inline double share(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

// On a terminal one line that is rewritten, elsewhere a line every 30 s.
class BuildLine {
 public:
  void show(const BuildProgress& p) {
    const double now =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (now < next_) return;
    next_ = now + (terminal_ ? 0.2 : 30);
    if (!terminal_ && now < 1) return;
    const double done = share(p.bytes_read, p.bytes_total);
    std::string line;
    if (p.bytes_total > 0) line = format_bar(done, 20) + fmt::format(" {:.0f} %  ", 100 * done);
    line += fmt::format("{} documents  {} tokens  {} a second", format_count(p.documents),
                        format_count(p.tokens),
                        human_bytes(static_cast<int64_t>(static_cast<double>(p.text_bytes) / now)));
    if (p.bytes_total > 0 && done > 0.01) {
      line += "  left " + format_duration(now * (1 - done) / done);
    }
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
    shown_ = terminal_;
  }
  ~BuildLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_ = 0;
};

}  // namespace tessera
