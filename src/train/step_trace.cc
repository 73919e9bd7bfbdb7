#include "train/step_trace.h"

#include <fmt/format.h>

#include "ir/rule.h"

namespace tessera {

std::function<void(const OpEvent&)> StepTrace::observer(const Program& program) {
  if (!wanted_) return {};
  last_s_ = now_s_();
  return [this, values = local_values(program.values)](const OpEvent& e) {
    const Cost cost = cost_of(*e.op.op, values);
    TraceEvent t;
    t.op = rule_of(e.op.op->kind).name;
    t.origin = e.call.layer == kNone
                   ? fmt::format("{}, {}", e.segment.name, e.op.op->origin)
                   : fmt::format("layer {}, {}, {}", e.call.layer, e.segment.name, e.op.op->origin);
    t.queue = "compute";
    t.start_s = last_s_;
    const double now = now_s_();
    t.duration_s = now - last_s_;
    last_s_ = now;
    t.bytes = static_cast<int64_t>(cost.bytes);
    t.flops = cost.flops;
    events_.push_back(std::move(t));
  };
}

std::string StepTrace::json(const std::string& title, double matrix_rate) const {
  std::vector<TraceEvent> events = events_;
  for (TraceEvent& e : events)
    if (e.flops > 0 && e.duration_s > 0) e.share_of_limit = e.flops / matrix_rate / e.duration_s;
  return chrome_trace(events, title);
}

}  // namespace tessera
