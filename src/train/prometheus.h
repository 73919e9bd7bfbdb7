// A file with the latest figures of a run in Prometheus' text format, as the textfile collector of
// node_exporter reads it.
//
//   # HELP tessera_loss Training loss, …
//   # TYPE tessera_loss gauge
//   tessera_loss{run="first"} 2.5
//
// All samples of a metric are together, after its HELP and TYPE lines. In label values,
// backslashes, double quotes and line ends are escaped. There are no timestamps, which the
// collector rejects. https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "base/file.h"
#include "train/metric_scalars.h"

namespace tessera::train {

class PrometheusFile {
 public:
  // `run` is the label of all samples. Nothing is written yet.
  PrometheusFile(Path path, std::string run);

  // Replaces the figures. Those of other metrics, datasets and tasks stay.
  void set(int64_t step, double wall_s, const std::vector<MetricScalar>& scalars);

  // Replaces the file (rename of a temporary file in the same directory), unless it was replaced
  // less than 5 s ago and `always` is false. A scrape never reads a partial file. It is a best
  // effort: an error is kept for take_report().
  void write(double wall_s, bool always);

  // Returns a message once when the file can no longer be written, with the reason, and once when
  // it can be written again. Otherwise returns nothing.
  std::optional<std::string> take_report();

  std::string text() const;

 private:
  Path path_;
  std::string run_;
  int64_t step_ = 0;
  double step_wall_s_ = 0, written_s_ = 0;
  EnumArray<Metric, std::map<std::string, double>> samples_;  // by their labels, as text
  bool failing_ = false;
  std::optional<std::string> report_;
};

}  // namespace tessera::train
