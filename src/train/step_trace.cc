#include "train/step_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {

std::function<void(const OpEvent&)> StepTrace::observer(const Program& program) {
  if (!wanted_) return {};
  return [this, values = local_values(program.values)](const OpEvent& e) {
    const Cost cost = cost_of(*e.op.op, values);
    TraceEvent t;
    t.op = name_of(e.op.op->kind());
    t.origin = e.call.layer == kNone ? fmt::format("{}, {}", e.segment.name(), e.op.op->origin)
                                     : fmt::format("layer {}, {}, {}", e.call.layer,
                                                   e.segment.name(), e.op.op->origin);
    t.queue = name_of(e.segment.queue);
    t.start_s = e.start_s;
    t.duration_s = now_s_() - e.start_s;
    t.bytes = static_cast<int64_t>(cost.bytes);
    t.flops = cost.flops.hardware;
    events_.push_back(std::move(t));
  };
}

std::string StepTrace::json(World& world, const std::string& title, double matrix_rate) {
  world.barrier();
  const double together = now_s_();
  double earliest = 0;  // of all ranks, before the barrier
  for (TraceEvent& e : events_) {
    e.start_s -= together;
    earliest = std::max(earliest, -e.start_s);
  }
  std::array<double, 2> most = {earliest, matrix_rate};
  world.all_reduce(most, Reduction::kMax);
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

}  // namespace tessera
