// Reads log.txt: starts, checkpoints, warnings and the planned memory of a run.
//
// Most lines carry no step. The step of a line is found from its time: the last line before it that
// names a step is the anchor, and the recorded times of the steps after that step are added until
// they reach the time of the line.
#include <algorithm>
#include <array>
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
    } else if (text.starts_with("stopped by ")) {
      add(EventKind::kStop, line, text);
    } else if (text.starts_with("saved ")) {
      if (const auto step = count_at(text.substr(6))) add_checkpoint(line, *step);
    } else if (text.starts_with("step ")) {
      if (const auto step = count_at(text.substr(5))) set_anchor(line, *step);
    } else if (!log_.starts.empty()) {
      read_of_start(line);
    }
  }

 private:
  void begin_start(const LogLine& line) {
    log_.starts.push_back({line.time, line.text, "", "", 0});
    log_.memory = {};
    has_parts_ = false;
    own_events_ = log_.events.size();
    while (own_events_ > 0 && is_of_start(own_events_ - 1, line)) --own_events_;
    restart_.reset();
    if (log_.starts.size() > 1) restart_ = add(EventKind::kRestart, line, "started at step 0");
    begin_at(line, 0);
  }

  // Warnings of a start come before the line that begins it.
  bool is_of_start(size_t event, const LogLine& line) const {
    constexpr double kPrepares_s = 10;
    return log_.events[event].kind == EventKind::kWarning &&
           line.seconds - event_s_[event] < kPrepares_s;
  }

  // The events of this start so far happened before its first step.
  void begin_at(const LogLine& line, int64_t step) {
    for (size_t i = own_events_; i < log_.events.size(); ++i) log_.events[i].step = step;
    set_anchor(line, step);
  }

  void read_of_start(const LogLine& line) {
    const std::string_view text = line.text;
    Start& start = log_.starts.back();
    if (text.starts_with("layout ")) {
      start.layout = trimmed(text.substr(7));
    } else if (text.starts_with("data ")) {
      start.data = trimmed(text.substr(5));
    } else if (text.starts_with("resume ")) {
      resume(line);
    } else if (text.starts_with("first step done")) {
      begin_at(line, start.resumed_step);
      set_anchor(line, start.resumed_step + 1);
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
    if (!restart_) restart_ = add(EventKind::kRestart, line, "");
    begin_at(line, *step);
    log_.events[*restart_].text = fmt::format("resumed at {}", rest);
  }

  // The line appears when the save ends, which may be after later steps.
  void add_checkpoint(const LogLine& line, int64_t step) {
    push({EventKind::kCheckpoint, step, line.time, line.text}, line);
    set_anchor(line, std::max(step, step_at(line.seconds)));
  }

  size_t add(EventKind kind, const LogLine& line, std::string_view text) {
    push({kind, step_at(line.seconds), line.time, std::string(text)}, line);
    return log_.events.size() - 1;
  }

  void push(Event event, const LogLine& line) {
    log_.events.push_back(std::move(event));
    event_s_.push_back(line.seconds);
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
  std::vector<double> event_s_;    // times of log_.events
  size_t own_events_ = 0;          // index of the first event of this start
  std::optional<size_t> restart_;  // index of the event of this start
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
}

}  // namespace tessera::report
