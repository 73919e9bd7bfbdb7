// Formats the reports of a run: the log, the progress line and the activity for the monitor.
#include "train/run_reporter.h"

#include <iterator>
#include <string>

#include "base/error.h"
#include "ir/names.h"
#include "ir/rule.h"
#include "runtime/executor.h"
#include "tensor/process_limits.h"
#include "train/run_data.h"

namespace tessera::train {
namespace {

// Returns text such as "backward.layer of layer 11, micro-batch 3: reduce_scatter of mlp.down over
// tensor".
std::string describe(const runtime::OpStart& at) {
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "{}", at.segment.name());
  if (at.call.layer != kNone) fmt::format_to(to, " of layer {}", at.call.layer);
  if (at.call.microbatch != kNone) fmt::format_to(to, ", micro-batch {}", at.call.microbatch);
  fmt::format_to(to, ": {}", name_of(at.op.kind()));
  if (!at.op.origin.empty()) fmt::format_to(to, " of {}", at.op.origin);
  const GroupRef* const group = over_of(at.op.attributes);
  const std::string over = group != nullptr ? to_string(*group) : partners_of(at.call.comm);
  if (!at.op.chunk.is_whole())
    fmt::format_to(to, ", chunk {} of {}", at.op.chunk.index + 1, at.op.chunk.count);
  if (is_inner(at.op.queue)) fmt::format_to(to, " on queue {}", name_of(at.op.queue));
  if (at.waits && !over.empty()) fmt::format_to(to, " over {}", over);
  return out;
}

LogTerminal terminal_of(const TrainOptions& options, bool is_rank0) {
  if (!is_rank0) return LogTerminal::kOff;
  return options.json ? LogTerminal::kErr : LogTerminal::kOut;
}

}  // namespace

RunReporter::RunReporter(const TrainOptions& options, const comm::World& world)
    : options_(options),
      is_rank0_(world.rank() == 0),
      log_(terminal_of(options, is_rank0_)),
      progress_(is_rank0_ ? options.terminal : Progress::Output{}) {}

void RunReporter::say(const std::string& line) {
  progress_.finish();
  log_.info("{}", line);
}

void RunReporter::warn(const std::string& line) {
  progress_.finish();
  log_.warning("{}", line);
}

void RunReporter::doing(int64_t step, std::string_view what) {
  step_ = step;
  if (options_.heartbeat) options_.heartbeat->say(step, what);
}

// Formats the activity for the heartbeat: the op, and a save that is in progress at the same time.
void RunReporter::doing(const runtime::OpStart& at, int64_t saving) const {
  options_.heartbeat->say(
      step_,
      saving < 0 ? describe(at) : fmt::format("{}, saving {} meanwhile", describe(at), saving),
      at.waits);
}

// Only rank 0 writes. Rates are computed for every step, but only recorded steps are written to the
// files.
void RunReporter::add(StepMetrics m, double tokens, int64_t sequences, int64_t last_step,
                      bool recorded) {
  if (!is_rank0_) return;
  m.resident_bytes = process_resident_bytes();
  figures_.add(m, tokens, sequences);
  if (recorded) record_->add(m);
  const ProgressState state = figures_.progress(m, tokens, last_step);
  const double now_s = options_.now_s();
  const bool due = lines_.due(m.step, last_step, now_s);
  if (due) log_.record(format_progress(state, 0));
  progress_.show(state, now_s, due);
}

void RunReporter::add(const SourceMetrics& m) {
  if (is_rank0_) record_->add(m);
}

void RunReporter::add(const ValidationMetrics& m) {
  if (!is_rank0_) return;
  record_->add(m);
  say(validation_line(m));
}

void RunReporter::add(int64_t step, const TaskMetrics& m) {
  if (!is_rank0_) return;
  record_->add(step, m);
  say(fmt::format("step {} {}", format_count(step), text_of(m)));
}

}  // namespace tessera::train
