// Formats the progress line and writes it: rewritten in place on a terminal, as whole lines
// elsewhere.
#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "base/real.h"
#include "base/utf8.h"
#include "train/metrics.h"

namespace tessera::train {
namespace {

constexpr double kTerminalPeriod_s = 0.2;
constexpr int kBarCells = 10;
constexpr std::string_view kEraseLine = "\r\x1b[K";

// Formats three significant digits, never as a power of ten.
std::string three_digits(double x) {
  return x >= 99.95 ? fmt::format("{:.0f}", x)
                    : (x >= 9.995 ? fmt::format("{:.1f}", x) : fmt::format("{:.2f}", x));
}

}  // namespace

std::string format_rate(double per_s) {
  if (!std::isfinite(per_s)) return "–";
  if (per_s < 999.5) return fmt::format("{:.0f}", per_s);
  if (per_s < 999.5e3) return three_digits(per_s / 1e3) + " k";
  if (per_s < 999.5e6) return three_digits(per_s / 1e6) + " M";
  return three_digits(per_s / 1e9) + " G";
}

// Uses at most two units, and seconds only for short times.
std::string format_duration(double s) {
  const int64_t t = std::llround(std::max(s, 0.0));
  constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86400;
  if (t < kMinute) return fmt::format("{} s", t);
  if (t < 10 * kMinute) return fmt::format("{} min {} s", t / kMinute, t % kMinute);
  if (t < kHour) return fmt::format("{} min", t / kMinute);
  if (t < kDay) return fmt::format("{} h {} min", t / kHour, t % kHour / kMinute);
  return fmt::format("{} d {} h", t / kDay, t % kDay / kHour);
}

std::string format_learning_rate(double rate) {
  if (rate == 0) return "0";
  std::string s = fmt::format("{:.1e}", rate);  // 9.6e-04
  const size_t e = s.find('e');
  if (e == std::string::npos) return s;
  const size_t digits = e + 2;
  // Removes leading zeros of the exponent.
  while (s.size() > digits + 1 && s[digits] == '0') s.erase(digits, 1);
  if (s[e + 1] == '+') s.erase(e + 1, 1);
  return s;
}

std::string format_bar(double share, int cells) {
  static constexpr std::array<std::string_view, 8> kEighths = {"",  "▏", "▎", "▍",
                                                               "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::floor(std::clamp(share, 0.0, 1.0) * cells * 8));
  // The last cell is filled by eighths with the block elements of Unicode.
  std::string bar = "▕";
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  const int drawn = (eighths + 7) / 8;
  return bar + std::string(cells - drawn, ' ') + "▏";
}

std::string format_progress(const ProgressState& p, int bar_cells) {
  std::string line = fmt::format("step {}/{}", format_count(p.step), format_count(p.steps));
  if (bar_cells > 0) {
    const double share = p.steps > 0 ? ratio(p.step, p.steps) : 0;
    line += fmt::format(" {}", format_bar(share, bar_cells));
  }
  line += fmt::format(" loss {:.3f}  norm {:.2f}  lr {} │ {} {}/s", without_nan_sign(p.loss),
                      without_nan_sign(p.grad_norm), format_learning_rate(p.learning_rate),
                      format_rate(p.tokens_per_s), p.unit);
  if (p.flops_per_s > 0) line += fmt::format("  {} TFLOP/s", three_digits(p.flops_per_s / 1e12));
  if (p.matrix_rate_share > 0) {
    line += fmt::format("  {:.0f} % of matrix rate", 100 * p.matrix_rate_share);
  }
  if (p.exposed_share >= 0) line += fmt::format("  exposed comm {:.0f} %", 100 * p.exposed_share);
  if (p.memory_bytes > 0) {
    line += fmt::format("  {} GiB", three_digits(ratio(p.memory_bytes, 1 << 30)));
  }
  if (p.left_s >= 0) line += fmt::format(" │ left {}", format_duration(p.left_s));
  return line;
}

std::string cut_to_columns(const std::string& line, int columns) {
  size_t at = 0;
  for (int column = 0; at < line.size(); ++at) {
    // Continuation bytes of UTF-8 (10xxxxxx) occupy no column.
    const bool continues = (line[at] & 0xc0) == 0x80;
    if (!continues && column++ == columns) break;
  }
  return line.substr(0, at);
}

ProgressState progress_of(const StepMetrics& m, double tokens, double mean_s, double matrix_rate) {
  ProgressState p;
  p.step = m.step;
  p.loss = m.loss;
  p.grad_norm = m.grad_norm;
  p.learning_rate = m.learning_rate;
  p.tokens_per_s = tokens / mean_s;
  if (m.preference) p.unit = m.preference->kl ? "examples" : "pairs";
  p.flops_per_s = m.model_flops_per_s * m.step_s / mean_s;
  p.matrix_rate_share = p.flops_per_s / matrix_rate;
  p.memory_bytes = m.resident_bytes;
  return p;
}

bool StepLines::due(int64_t step, int64_t last, double now_s) {
  const bool now = every_ > 0 ? step % every_ == 0 : !next_s_.has_value() || now_s >= *next_s_;
  if (!now && step != last) return false;
  next_s_ = now_s + kPeriod_s;
  return true;
}

void Progress::show(const ProgressState& p, double now_s, bool due) {
  if (!output_.terminal) {
    if (due) print_to(output_.file, format_progress(p, 0) + "\n");
    return;
  }
  if (next_s_ && now_s < *next_s_ && p.step < p.steps) return;
  next_s_ = now_s + kTerminalPeriod_s;
  shown_ = format_progress(p, kBarCells);
  // A line that wraps around cannot be rewritten in place.
  if (output_.columns > 1) shown_ = cut_to_columns(shown_, output_.columns - 1);
  print_to(output_.file, fmt::format("{}{}", kEraseLine, shown_));
}

void Progress::print(std::string_view line) {
  const bool shows = output_.terminal && !shown_.empty();
  // The permanent line replaces the progress line, which is shown again below it.
  print_to(output_.file, fmt::format("{}{}\n{}", shows ? kEraseLine : "", printable(line),
                                     output_.terminal ? shown_ : ""));
}

void Progress::finish() {
  print_to(output_.file, output_.terminal && !shown_.empty() ? "\n" : "");
  shown_.clear();
}

}  // namespace tessera::train
