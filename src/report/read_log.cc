// Reads log.txt: starts, checkpoints, warnings and the planned memory of a run.
//
// Most lines carry no step. The step of a line is found from its time: the last line before it that
// names a step is the anchor, and the recorded times of the steps after that step are added until
// they reach the time of the line. Time in which a save paused the training has no steps.
// If the next start resumes at an earlier step, the run cannot have been further than that or than
// the anchor, as far as the log proves.
//
// A start trains from its line about the data, which is the last one before the first step, until
// it stops, fails, or has completed the planned steps. Charts have no marks of what was logged
// outside.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <string_view>

#include "base/real.h"
#include "report/run_data.h"

namespace tessera::report {
namespace {

struct LogLine {
  std::string time;    // "2026-11-24 09:37:28"
  double seconds = 0;  // the same, since 1970 in the time zone of the run
  std::string text;    // with the lines that continue it
};

constexpr size_t kStamp = 24;  // "2026-11-24 09:37:28.469 "

bool is_number(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

int number_at(std::string_view s, size_t begin, size_t count) {
  int n = 0;
  for (const char c : s.substr(begin, count)) n = 10 * n + (c - '0');
  return n;
}

// Returns the line with its time; nothing for a line without a time stamp.
std::optional<LogLine> stamped(std::string_view line) {
  constexpr std::string_view kShape = "0000-00-00 00:00:00.000 ";
  if (line.size() < kStamp) return std::nullopt;
  for (size_t i = 0; i < kStamp; ++i)
    if (kShape[i] == '0' ? !is_number(line.substr(i, 1)) : line[i] != kShape[i])
      return std::nullopt;
  namespace chr = std::chrono;
  const chr::year_month_day date(chr::year(number_at(line, 0, 4)),
                                 chr::month(number_at(line, 5, 2)),
                                 chr::day(number_at(line, 8, 2)));
  if (!date.ok()) return std::nullopt;
  const auto days = chr::sys_days(date).time_since_epoch().count();
  const int second_of_day =
      3600 * number_at(line, 11, 2) + 60 * number_at(line, 14, 2) + number_at(line, 17, 2);
  return LogLine{std::string(line.substr(0, 19)),
                 real_product(86400, days) + second_of_day + 1e-3 * number_at(line, 20, 3),
                 std::string(line.substr(kStamp))};
}

std::vector<LogLine> lines_of(std::string_view text) {
  std::vector<LogLine> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (std::optional<LogLine> own = stamped(line))
      lines.push_back(std::move(*own));
    else if (!lines.empty() && !line.empty())
      lines.back().text.append(1, '\n').append(line);
  }
  return lines;
}

// Returns the number at the start of `text`, with commas between thousands: "1,240/…" is 1240.
std::optional<int64_t> count_at(std::string_view text) {
  constexpr int64_t kMost = int64_t{1} << 53;
  int64_t n = 0;
  bool any = false;
  for (const char c : text) {
    if (c == ',' && any) continue;
    if (c < '0' || c > '9' || n > kMost / 10) break;
    n = 10 * n + (c - '0');
    any = true;
  }
  return any ? std::optional(n) : std::nullopt;
}

// Returns the text that follows `prefix` in `text`; nothing if it does not occur.
std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  const size_t at = text.find(prefix);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + prefix.size());
}

// Parses "3.2 MiB" at the start of `text`.
std::optional<double> bytes_at(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  double x = 0;
  try {
    x = std::stod(std::string(text.substr(0, space)));
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
  const std::string_view unit = text.substr(space + 1);
  constexpr std::array<std::pair<std::string_view, int>, 4> kUnits = {
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  for (const auto& [name, power] : kUnits)
    if (unit.starts_with(name)) return std::ldexp(x, power);
  return std::nullopt;
}

std::optional<double> bytes_after(std::string_view text, std::string_view prefix) {
  const auto rest = after(text, prefix);
  return rest ? bytes_at(*rest) : std::nullopt;
}

std::string_view trimmed(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}

// Parses the list before " · " in "weights 0.4 MiB, optimizer 0.9 MiB, … · live set 3.1 MiB".
std::vector<MemoryLine> parts_of(std::string_view text) {
  std::vector<MemoryLine> parts;
  text = text.substr(0, text.find(" · "));
  while (!text.empty()) {
    const size_t comma = text.find(", ");
    const std::string_view part = trimmed(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 2);
    const size_t space = part.find(' ');
    if (space == std::string_view::npos) continue;
    if (const auto bytes = bytes_at(part.substr(space + 1)))
      parts.push_back({std::string(part.substr(0, space)), *bytes});
  }
  return parts;
}

// Parses "weights 0.4 MiB, optimizer 0.9 MiB, … · 80.1 MiB outside the arena".
void read_measured(std::string_view text, Memory& memory) {
  double arena = 0;
  for (const MemoryLine& measured : parts_of(text)) {
    arena += measured.bytes;
    for (MemoryLine& part : memory.parts)
      if (part.name == measured.name) part.measured = measured.bytes;
  }
  memory.allocated = arena;
  memory.measured_outside = bytes_after(text, " · ");
}

// Returns the step that a message names as its own: "the loss is nan at step 23", "the loss of step
// 23 is 9.1".
std::optional<int64_t> step_named_in(std::string_view text) {
  if (text.starts_with("step ")) return count_at(text.substr(5));
  const auto rest = after(text, " step ");
  return rest ? count_at(*rest) : std::nullopt;
}

class LogReader {
 public:
  LogReader(const Steps& steps, RunLog& log) : steps_(steps), log_(log) {}

  void read(const LogLine& line) {
    const std::string_view text = line.text;
    if (text.starts_with("tessera ")) {
      begin_start(line);
    } else if (text.starts_with("warning")) {
      add(EventKind::kWarning, line, trimmed(text.substr(text.starts_with("warning:") ? 8 : 7)));
    } else if (text.starts_with("error: ")) {
      add(EventKind::kError, line, text.substr(7));
      trains_ = false;
    } else if (text.starts_with("stopped by ")) {
      add(EventKind::kStop, line, text);
      trains_ = false;
    } else if (text.starts_with("saved ")) {
      if (const auto step = count_at(text.substr(6))) add_checkpoint(line, *step);
    } else if (text.starts_with("step ")) {
      read_step(line);
    } else if (!log_.starts.empty()) {
      read_of_start(line);
    }
  }

  // Call it after the last line. A start that trained nothing has measured no memory.
  void finish() {
    if (trained_memory_ && !log_.starts.back().trained) log_.memory = *trained_memory_;
  }

 private:
  void begin_start(const LogLine& line) {
    if (!log_.starts.empty() && log_.starts.back().trained) trained_memory_ = log_.memory;
    log_.starts.push_back({line.time, line.text, "", "", 0, false});
    log_.memory = {};
    has_parts_ = false;
    own_events_ = log_.events.size();
    while (own_events_ > 0 && is_of_start(own_events_ - 1, line)) --own_events_;
    start_.reset();
    trains_ = false;
    if (log_.starts.size() > 1) start_ = add(EventKind::kStart, line, "started at step 0");
    begin_at(line, 0);
  }

  // "step 20 validation loss …", "step 20/100 …", "step 100 of 100 is done: nothing to do. …"
  void read_step(const LogLine& line) {
    const std::string_view text = line.text;
    const auto step = count_at(text.substr(5));
    if (!step) return;
    set_anchor(line, *step);
    const auto planned = after(text.substr(0, text.find(" loss ")), "/");
    if (planned && count_at(*planned) == step) trains_ = false;
    if (text.find("is done: nothing to do") == std::string_view::npos) return;
    trains_ = false;
    if (start_) log_.events[*start_].text += fmt::format("; {}", text);
  }

  // Warnings of a start come before the line that begins it.
  bool is_of_start(size_t event, const LogLine& line) const {
    constexpr double kPrepares_s = 10;
    return log_.events[event].kind == EventKind::kWarning &&
           line.seconds - logged_[event].seconds < kPrepares_s;
  }

  // The events of this start so far happened before its first step.
  void begin_at(const LogLine& line, int64_t step) {
    for (size_t i = own_events_; i < log_.events.size(); ++i)
      log_.events[i].step = logged_[i].named_step = step;
    set_anchor(line, step);
  }

  void read_of_start(const LogLine& line) {
    const std::string_view text = line.text;
    Start& start = log_.starts.back();
    if (text.starts_with("layout ")) {
      start.layout = trimmed(text.substr(7));
    } else if (text.starts_with("data ")) {
      start.data = trimmed(text.substr(5));
      trains_ = true;
    } else if (text.starts_with("resume ")) {
      resume(line);
    } else if (text.starts_with("first step done")) {
      begin_at(line, start.resumed_step);
      set_anchor(line, start.resumed_step + 1);
      begin_training();
    } else if (text.starts_with("memory    peak ")) {
      if (const auto rest = after(text, "(arena, ")) log_.memory.arena = count_at(*rest);
      log_.memory.outside = bytes_after(text, " bytes) + at most ");
      log_.memory.limit = bytes_after(text, ", limit ");
    } else if (text.starts_with("memory    measured after the first step: ")) {
      read_measured(text.substr(text.find(": ") + 2), log_.memory);
    } else if (text.starts_with("memory    on the device: ")) {
      // "… 1,234 bytes planned, 1,234 allocated; outside_bytes 512 MiB (driver, …"
      if (const auto rest = after(text, " planned, ")) log_.memory.allocated = count_at(*rest);
      log_.memory.measured_outside = bytes_after(text, "outside_bytes ");
    } else if (text.starts_with("          weights ") && !has_parts_) {
      log_.memory.live = bytes_after(text, "live set ");
      log_.memory.parts = parts_of(text);
      has_parts_ = true;
    }
  }

  // "resume    step 10 from runs/four/checkpoints/10 in 0.05 s"
  void resume(const LogLine& line) {
    const std::string_view rest = trimmed(std::string_view(line.text).substr(7));
    const auto step = rest.starts_with("step ") ? count_at(rest.substr(5)) : std::nullopt;
    if (!step) return;
    log_.starts.back().resumed_step = *step;
    // The log begins with a resume if an older log was removed.
    if (!start_) start_ = add(EventKind::kStart, line, "");
    limit_to(*step);
    begin_at(line, *step);
    log_.events[*start_].text = fmt::format("resumed at {}", rest);
  }

  // The events since the last resume were at most at `step`, at which this start resumes, or at the
  // step that a line before them names.
  void limit_to(int64_t step) {
    for (size_t i = limited_; i < own_events_; ++i) {
      Event& e = log_.events[i];
      e.step = std::min(e.step, std::max(step, logged_[i].named_step));
    }
    limited_ = own_events_;
  }

  // The first step of the start is done, so its events belong to a training.
  void begin_training() {
    trains_ = log_.starts.back().trained = true;
    for (size_t i = own_events_; i < log_.events.size(); ++i) log_.events[i].marked = true;
    if (start_) log_.events[*start_].kind = EventKind::kRestart;
  }

  // "saved 20 in 0.30 s, training paused 0.10 s" appears when the save ends. Later steps ran
  // during the part of the save that did not pause them: the save began 0.30 s ago, after step 20,
  // and 0.20 s of later steps have passed since.
  void add_checkpoint(const LogLine& line, int64_t step) {
    push({EventKind::kCheckpoint, step, line.time, line.text}, line, step);
    set_anchor(line, step);
    const auto whole = seconds_after(line.text, " in "),
               paused = seconds_after(line.text, "training paused ");
    if (whole && paused && *whole > *paused) anchor_s_ -= *whole - *paused;
  }

  // Returns the number that follows `prefix` in `text`.
  static std::optional<double> seconds_after(std::string_view text, std::string_view prefix) {
    const auto rest = after(text, prefix);
    double x = 0;
    if (!rest || std::from_chars(rest->data(), rest->data() + rest->size(), x).ec != std::errc())
      return std::nullopt;
    return x;
  }

  // Adds an event at the step that its text names, or at the step of its time. Returns its index.
  size_t add(EventKind kind, const LogLine& line, std::string_view text) {
    const std::optional<int64_t> named = step_named_in(text);
    push({kind, named.value_or(step_at(line.seconds)), line.time, std::string(text), trains_}, line,
         named.value_or(anchor_step_));
    return log_.events.size() - 1;
  }

  void push(Event event, const LogLine& line, int64_t named_step) {
    log_.events.push_back(std::move(event));
    logged_.push_back({line.seconds, named_step});
  }

  void set_anchor(const LogLine& line, int64_t step) {
    anchor_step_ = step;
    anchor_s_ = line.seconds;
  }

  // Returns the last step that was completed at that time.
  int64_t step_at(double seconds) const {
    double at = anchor_s_;
    int64_t step = anchor_step_;
    const auto first = std::upper_bound(steps_.step.begin(), steps_.step.end(), anchor_step_);
    for (size_t i = first - steps_.step.begin(); i < steps_.step.size(); ++i) {
      const double each = steps_.values[Column::kStepS][i];
      if (!std::isfinite(each)) break;
      at += real_product(each, steps_.step[i] - step);
      if (at > seconds) break;
      step = steps_.step[i];
    }
    return step;
  }

  const Steps& steps_;
  RunLog& log_;
  bool has_parts_ = false;
  std::optional<Memory> trained_memory_;  // as the last earlier start that trained reported it
  struct Logged {
    double seconds = 0;      // since 1970 in the time zone of the run
    int64_t named_step = 0;  // the last one that a line named
  };
  std::vector<Logged> logged_;   // one per event
  size_t own_events_ = 0;        // index of the first event of this start
  size_t limited_ = 0;           // events before it are limited by a resume
  std::optional<size_t> start_;  // index of the event of this start
  bool trains_ = true;           // as in a log whose beginning was removed
  int64_t anchor_step_ = 0;
  double anchor_s_ = std::numeric_limits<double>::infinity();  // no step is known yet
};

}  // namespace

void read_log(const Path& file, RunData& run) {
  if (!std::filesystem::exists(file)) return;
  std::vector<LogLine> lines;
  try {
    lines = lines_of(read_file(file));
  } catch (const Error& e) {
    run.left_out.push_back(e.what());
    return;
  }
  LogReader reader(run.steps, run.log);
  for (const LogLine& line : lines) reader.read(line);
  reader.finish();
}

}  // namespace tessera::report
