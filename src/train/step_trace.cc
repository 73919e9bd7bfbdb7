// Records the time of each op of one step, and merges the timelines of the ranks. Clocks are
// aligned at a barrier after the step, so times relative to it are negative. The earliest time of
// all ranks becomes the origin.
#include "train/step_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/names.h"
#include "ir/rule.h"
#include "train/run_folder.h"

namespace tessera::train {

Path write_trace(const Path& directory, int64_t step, const std::string& json) {
  Path path = directory / "trace.json";
  if (!may_replace(path, kTraceBegin)) path = directory / fmt::format("trace-{}.json", step);
  if (!may_replace(path, kTraceBegin))
    throw Error(
        "{}: neither this file nor trace.json is a trace that Tessera wrote. Move one of them "
        "away.",
        path.string());
  write_file(path, json);
  return path;
}

std::function<void(const runtime::OpEvent&)> StepTrace::observer(const Program& program) {
  if (!wanted_) return {};
  return [this, values = local_values(program.values)](const runtime::OpEvent& e) {
    const Cost cost = cost_of(*e.op.op, values);
    TraceEvent t;
    t.op = name_of(e.op.op->kind());
    t.origin = e.call.layer == kNone ? fmt::format("{}, {}", e.segment.name(), e.op.op->origin)
                                     : fmt::format("layer {}, {}, {}", e.call.layer,
                                                   e.segment.name(), e.op.op->origin);
    t.queue = name_of(queue_of(*e.op.op, e.segment.queue));
    t.start_s = e.start_s;
    t.duration_s = now_s_() - e.start_s;
    t.bytes = static_cast<int64_t>(cost.bytes);
    t.flops = cost.flops.hardware;
    events_.push_back(std::move(t));
  };
}

std::string StepTrace::json(comm::World& world, const std::string& title, double matrix_rate) {
  world.barrier();
  const double together = now_s_();
  double earliest = 0;  // seconds before the barrier, at first of this rank
  for (TraceEvent& e : events_) {
    e.start_s -= together;
    earliest = std::max(earliest, -e.start_s);
  }
  // A maximum also gives all ranks rank 0's matrix rate, since the others have 0.
  std::array<double, 2> most = {earliest, matrix_rate};
  world.all_reduce(most, comm::Reduction::kMax);
  for (TraceEvent& e : events_)
    if (e.flops > 0 && e.duration_s > 0) e.share_of_limit = e.flops / most[1] / e.duration_s;
  TraceProcess process{title, world.rank(), -most[0]};
  if (world.size() > 1)
    process.title = fmt::format("rank {} of {}, {}", world.rank(), world.size(), title);
  std::string own = chrome_records(events_, process);
  std::vector<std::string> all;
  for (int64_t r = 0; r < world.size(); ++r) {
    std::string records = r == world.rank() ? std::move(own) : std::string();
    if (world.size() > 1) world.broadcast(records, r);
    if (world.rank() == 0) all.push_back(std::move(records));
  }
  return world.rank() == 0 ? chrome_trace(all) : "";
}

}  // namespace tessera::train
