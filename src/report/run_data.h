// The recorded course of a run: what a report shows of a run directory.
//
// read_run() accepts files that are damaged or still grow: whatever it cannot read it leaves out,
// and RunData::left_out states file, line and reason.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_array.h"
#include "base/file.h"
#include "report/trace_data.h"

namespace tessera::report {

// ---- metrics.jsonl

// The numbers in the metrics line of a step; NaN if the line does not have one.
enum class Column : uint8_t {
  kTokens,
  kLoss,
  kGradNorm,
  kLearningRate,
  kStepS,
  kDataS,
  kTokensPerS,
  kFlopsPerS,
  kFlopsShare,
  kHiddenS,
  kExposedS,
  kBubbleShare,
  kSlowestOverMean,
  kLossScale,
  kResidentBytes,
  kSlowestRank,
  kRouterLoss,
  kBusiestExpert,
  kLoadEntropy,
  kDroppedShare,
  kZLoss,
  // Figures of pairs of answers (docs/objectives.md):
  kRewardsChosen,
  kRewardsRejected,
  kRewardsMargins,
  kRewardsAccuracies,
  kLogpsChosen,
  kLogpsRejected,
  kKl,
  kNllLoss,
  kNoiseScale,  // in sequences
};
constexpr size_t count_of(Column) { return static_cast<size_t>(Column::kNoiseScale) + 1; }

struct Steps {
  std::vector<int64_t> step;                      // rising
  EnumArray<Column, std::vector<double>> values;  // one entry per step

  bool has(Column c) const;  // true if any step has a number
  // Returns the sum of step_s of the steps up to index i, for each i: training time without
  // startups, validations and pauses.
  std::vector<double> elapsed_s() const;
};

// Values recorded at some steps.
enum class CurveKind : uint8_t {
  kValidation,  // a validation loss
  kSource,      // the training loss of a dataset of a blend
  kTask,        // a figure of an evaluation task
  kAnswers,     // a figure of pairs of answers in validation, such as the margin of their rewards
};
constexpr size_t count_of(CurveKind) { return static_cast<size_t>(CurveKind::kAnswers) + 1; }

struct Curve {
  std::string name;  // "wiki", "piqa accuracy"
  CurveKind kind = CurveKind::kValidation;
  std::vector<int64_t> step;
  std::vector<double> value, bits_per_byte;  // the latter for validation losses only
  std::string figure = {};                   // the name of kAnswers: "rewards_margins"
};

// Bytes sent by all ranks together, summed over the recorded steps, by mesh axis.
using TrafficBytes = std::vector<std::pair<std::string, double>>;

// ---- log.txt

enum class EventKind : uint8_t {
  kCheckpoint,
  kStart,    // a later start that trained no step: it was rejected, or found nothing to do
  kRestart,  // a later start that trained
  kWarning,
  kError,
  kStop,
};
constexpr size_t count_of(EventKind) { return static_cast<size_t>(EventKind::kStop) + 1; }
std::string_view name_of(EventKind kind);  // "checkpoint", "start", "restart", …

struct Event {
  EventKind kind = EventKind::kWarning;
  int64_t step = 0;  // the last completed step at that time; derived from times where not logged
  std::string time;  // as logged: "2026-11-24 09:37:28"
  std::string text;
  bool marked = true;  // false: the run did not train at that time, so charts have no mark of it
};

// A memory line as the run planned it: "weights", 0.4 MiB.
struct MemoryLine {
  std::string name;
  double bytes = 0;
  std::optional<double> measured = {};  // resident after the first step
};

struct Memory {
  std::vector<MemoryLine> parts;                      // parts of the arena, which add up to it
  std::optional<double> arena, outside, limit, live;  // bytes; outside the arena: at most
  std::optional<double> allocated, measured_outside;  // after the first step
};

struct Start {
  std::string time, model, layout, data;  // the lines of the log, without their first word
  int64_t resumed_step = 0;
  bool trained = false;  // completed a step
};

struct RunLog {
  std::vector<Start> starts;
  std::vector<Event> events;  // in the order of the log
  Memory memory;              // as the last start that trained reported it, or the last one
};

// ---- All data of a run

using Setting = std::pair<std::string, std::string>;  // "batch.micro", "4"

// Lines of steps that are not in the order in which a run writes them. A resume leaves none: it
// removes the lines of later steps.
struct LineOrder {
  int64_t repeated = 0;  // lines of a step that a later line has too; these are left out
  int64_t reversed = 0;  // lines of an earlier step than the line before them
  int64_t last = -1;     // the step of the last line
};

struct RunData {
  std::string name;  // the last part of the directory's path
  Path directory;
  Steps steps;
  int metrics_lines = 0;  // lines of metrics.jsonl that were read
  LineOrder line_order;
  std::vector<Curve> curves;
  TrafficBytes traffic;
  RunLog log;
  std::optional<Trace> trace;
  std::vector<Setting> settings;      // the keys of run.yaml, flattened, in its order
  std::vector<std::string> left_out;  // unreadable parts, with file, line and reason
};

// Throws Error if `directory` is not a run directory.
RunData read_run(const Path& directory);

// Returns a warning about the order of the lines of metrics.jsonl; empty if they are in order.
std::string order_warning(const RunData& run);

// Returns the value of a key of the configuration, empty if it has none; nothing if the value is
// not an integer.
std::string setting(const RunData& run, std::string_view key);
std::optional<int64_t> integer_setting(const RunData& run, std::string_view key);
// Returns the last finite value; NaN if there is none.
double last_finite(const std::vector<double>& values);

// Units: what the key `tokens` and the rates of a run count, and the unit of its loss. A preference
// objective counts pairs of answers or, with kto, examples. A loss that is not a negative
// log-likelihood has no nats: ipo is a squared difference, kto a probability.
struct RunUnits {
  std::string_view count = "tokens";         // or "pairs", "examples"
  std::string_view rate = "tok";             // before "/s" in a line of progress
  std::string_view loss = "nats per token";  // or "nats per pair", "per pair", "per example"
};
RunUnits units_of(const RunData& run);

// Returns the name of a run directory or of the directory of a sweep: the last part of its path.
std::string name_of_directory(const Path& directory);

// ---- The files, one by one. They append to `left_out`; a missing file is empty.

void read_metrics(const Path& file, RunData& run);
// Adds the whole lines of `text`, which follow those read before. Returns the bytes of these lines.
size_t add_metrics(std::string_view text, const Path& file, RunData& run);
void read_log(const Path& file, RunData& run);  // after read_metrics()
void read_trace(const Path& file, RunData& run);
void read_settings(const Path& file, RunData& run);
// Returns the file of the resolved configuration: run.resolved.yaml exists where run.yaml is the
// user's file.
Path settings_file(const Path& directory);

}  // namespace tessera::report
