// Writes Prometheus' text format, version 0.0.4, to a file for node_exporter's textfile collector.
// The file is replaced atomically, so a collector never reads half of it. All samples of one metric
// are adjacent, as the format requires; they are kept in a map by metric and labels and written
// again completely, a few kilobytes at most every five seconds. A disk that is full must not stop
// training: a failed write is reported once and tried again later.
#include "train/prometheus.h"

#include <cmath>
#include <iterator>

#include "base/error.h"

namespace tessera::train {
namespace {

// A write waits for the disk, and collectors read every 15 s or more.
constexpr double kMinPeriod_s = 5;

std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string number_text(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", x);
}

std::string label_text(std::string_view name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, escaped_label(value));
}

void append_family(std::string& out, std::string_view name, std::string_view help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}.\n# TYPE {} gauge\n", name, help, name);
}

}  // namespace

PrometheusFile::PrometheusFile(Path path, std::string run)
    : path_(std::move(path)), run_(std::move(run)) {}

void PrometheusFile::set(int64_t step, double wall_s, const std::vector<MetricScalar>& scalars) {
  step_ = step;
  step_wall_s_ = wall_s;
  for (const MetricScalar& s : scalars) {
    std::string labels = label_text("run", run_);
    for (const auto& [name, value] : s.labels) {
      labels += ',';
      labels += label_text(name, value);
    }
    samples_[s.metric][labels] = s.value;
  }
}

void PrometheusFile::write(double wall_s, bool always) {
  if (!always && std::abs(wall_s - written_s_) < kMinPeriod_s) return;
  written_s_ = wall_s;
  try {
    write_file(path_, text());
    if (failing_) report_ = fmt::format("{}: can be written again", path_.string());
    failing_ = false;
  } catch (const std::exception& e) {
    if (!failing_)
      report_ = fmt::format("{}. The run continues without metrics.prometheus.", e.what());
    failing_ = true;
  }
}

std::optional<std::string> PrometheusFile::take_report() { return std::exchange(report_, {}); }

std::string PrometheusFile::text() const {
  std::string out;
  const std::string run = label_text("run", run_);
  const auto add_run = [&](std::string_view name, std::string_view help, double value) {
    append_family(out, name, help);
    fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, run, number_text(value));
  };
  add_run("tessera_step", "Last recorded step", static_cast<double>(step_));
  add_run("tessera_last_update_timestamp_seconds", "Unix time of the last recorded figure",
          step_wall_s_);
  for (const Metric m : Enumerators<Metric>()) {
    if (samples_[m].empty()) continue;
    append_family(out, name_of(m).prometheus, name_of(m).help);
    for (const auto& [labels, value] : samples_[m])
      fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name_of(m).prometheus, labels,
                     number_text(value));
  }
  return out;
}

}  // namespace tessera::train
