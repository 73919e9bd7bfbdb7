// The time of a segment is the sum of its ops, and at least the time of its launches. Communication
// within a segment is exposed, with one exception: software that overlaps repeated gathers runs
// them during the next GEMM. The time is computed once, and once more for calls that write a sum
// instead of adding to it.
#include "plan/segment_time.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/real.h"
#include "ir/chunk.h"
#include "ir/op_order.h"
#include "ir/rule.h"

namespace tessera::plan {
namespace {

int64_t to_ns(double s) { return std::llround(s * 1e9); }

// Returns true for a GEMM whose result is added to a weight gradient.
bool adds_product(const Cost& c) {
  return c.work == Work::kProduct && c.products.front().kind == GemmKind::kWeightGradient;
}

// Returns true if the call writes a sum instead of adding to it, as the first call of a step does.
bool adds_first(const Call& c) {
  return std::find(c.first_write.begin(), c.first_write.end(), true) != c.first_write.end();
}

}  // namespace

std::string_view name_of(TrafficKind t) {
  constexpr EnumArray<TrafficKind, std::string_view> kNames = {"tensor", "data", "pipeline",
                                                               "world", "host"};
  return kNames.at(t);
}

TrafficKind traffic_of(const GroupRef& group) {
  if (group.kind == GroupRef::Kind::kStages) return TrafficKind::kPipeline;
  if (group.kind == GroupRef::Kind::kWorld) return TrafficKind::kWorld;
  const bool data =
      group.has(AxisKind::kShard) || group.has(AxisKind::kReplica) || group.has(AxisKind::kExpert);
  return data ? TrafficKind::kData : TrafficKind::kTensor;
}

TimeParts PartsNs::seconds() const {
  TimeParts t;
  t.with(*this, [](double& s, int64_t ns) { s = seconds_of(ns); });
  return t;
}

SegmentTimes::SegmentTimes(const Program& program, const Hardware& hardware,
                           const Software& software)
    : program_(program),
      hardware_(hardware),
      software_(software),
      local_(local_values(program.values)),
      times_(program.segments.size()),
      known_(program.segments.size()) {}

const SegmentTime& SegmentTimes::of(const Call& call) {
  const SegmentId s = call.segment;
  const bool fresh = adds_first(call);
  if (!known_[s][fresh]) {
    times_[s][fresh] = measure(call, fresh);
    known_[s][fresh] = true;
  }
  return times_[s][fresh];
}

const GroupShape& SegmentTimes::group(const GroupRef& over) {
  const auto [known, made] = groups_.try_emplace(over);
  if (made)
    known->second =
        group_shape(program_.mesh, over, program_.stage, hardware_, software_.hierarchical);
  return known->second;
}

const GroupShape& SegmentTimes::pair_with(int64_t peer) {
  const auto [known, made] = pairs_.try_emplace(peer);
  if (made) known->second = message_shape(program_.mesh, program_.stage, peer, hardware_);
  return known->second;
}

// Ranks of a tensor group hold the same hidden states (without sequence parallelism). Software that
// splits messages sends one part from each of them and gathers the parts at the receiver.
double SegmentTimes::message_time(const Op& op, const Call& call) {
  const Value& v = local_[op.inputs.empty() ? op.outputs[0] : op.inputs[0]];
  const double bytes = bytes_of(local_, op.inputs.empty() ? op.outputs[0] : op.inputs[0]);
  const GroupShape& pair = pair_with(call.comm.peer);
  const int64_t parts = program_.mesh[AxisKind::kTensor] * program_.mesh[AxisKind::kTensorKv];
  if (!software_.split_messages || parts == 1 || v.sharding.place[AxisKind::kTensor] >= 0)
    return message_s(bytes, pair, hardware_);
  return message_s(ratio(bytes, parts), pair, hardware_) +
         collective_s(CommKind::kAllGather, bytes,
                      group(GroupRef::along({AxisKind::kTensorKv, AxisKind::kTensor})), hardware_);
}

double SegmentTimes::communication_s(const Op& op, const Call& call) {
  if (is_message(op)) return message_time(op, call);
  const Value& whole = local_[whole_operand(op)];
  const int64_t elements = piece_of(op, whole.shape.elements()).elements() / op.chunk.count;
  const double sent = real_product(elements, size_of(wire_type(op, whole)));
  return collective_s(rule_of(op).effects.comm, sent, group(*over_of(op.attributes)), hardware_);
}

void SegmentTimes::add_op(const Segment& s, const Op& op, const Call& call, bool fresh,
                          SegmentTime& t) {
  const bool again =
      t.again || (!op.outputs.empty() && local_[op.outputs[0]].copy == CopyKind::kRecomputed);
  const OpRule& rule = rule_of(op);
  if (tessera::communicates(op)) {
    const int64_t ns = to_ns(communication_s(op, call));
    if (again && software_.overlap_regather && rule.effects.comm == CommKind::kAllGather) {
      t.beside_ns += ns;
      return;
    }
    const TrafficKind traffic = s.queue >= Queue::kSendForward
                                    ? TrafficKind::kPipeline
                                    : traffic_of(*over_of(op.attributes));
    t.ns += ns;
    t.parts.exposed[traffic] += ns;
    t.traffic = traffic;
    return;
  }
  const Cost cost = cost_of(op, local_);
  double seconds = on_chunk(op, local_, [&](const Op& of, ValueSpan own) {
    return op_s(of, cost, own, hardware_, software_);
  });
  if (cost.work == Work::kHostCopy) {
    const int64_t ns = to_ns(seconds);
    t.ns += ns;
    t.parts.exposed[TrafficKind::kHost] += ns;
    t.traffic = TrafficKind::kHost;
    return;
  }
  t.communicates = false;
  if (adds_product(cost) && !fresh) {
    // The existing sum is read as well, which matters for small GEMMs.
    const DeviceFigures& d = hardware_.device;
    seconds += bytes_of(local_, op.outputs[0]) / (d.memory_bytes_per_s * d.memory_efficiency);
  }
  const int64_t ns = to_ns(seconds);
  const Flops& flops = cost.flops;
  // The pending gather runs during this GEMM; only its excess is exposed.
  if (flops.hardware > 0 && t.beside_ns > 0) {
    const int64_t exposed = std::max<int64_t>(t.beside_ns - ns, 0);
    t.ns += exposed;
    t.parts.exposed[TrafficKind::kTensor] += exposed;
    t.beside_ns = 0;
  }
  t.ns += ns;
  t.flops.hardware += flops.hardware;
  if (!again) {
    t.flops.model += flops.model;
    t.flops.square += flops.square;
  }
  if (again)
    t.parts.recomputation += ns;
  else if (rule.time == TimeGroup::kOptimizer)
    t.parts.optimizer += ns;
  else
    t.parts.compute[op.kind()] += ns;
}

// Adds ops with inner queues. Each starts when the previous op on its queue and the ops it waits
// for have ended. Time in which the compute queue waits is exposed, and is counted for the op that
// it waits for; at the end it waits for all others.
void SegmentTimes::add_ops_of_queues(const Segment& s, const Call& call, bool fresh,
                                     SegmentTime& t) {
  EnumArray<Queue, int64_t> free;  // when the last op of each queue ends
  std::vector<int64_t> finish;
  int64_t waited = 0;
  const auto wait_for = [&](const Op& op, int64_t ns) {
    const GroupRef* const over = over_of(op.attributes);
    t.parts.exposed[over ? traffic_of(*over) : TrafficKind::kTensor] += ns;
    waited += ns;
  };
  for (const Op& op : s.ops) {
    int64_t& clock = free[queue_of(op, s.queue)];
    int64_t start = clock;
    const Op* latest = nullptr;
    for (const int32_t j : op.after) {
      if (finish[j] <= start) continue;
      start = finish[j];
      latest = &s.ops[j];
    }
    if (!is_inner(op.queue) && latest) wait_for(*latest, start - clock);
    int64_t ns = -t.ns;
    if (is_inner(op.queue)) {
      ns = to_ns(tessera::communicates(op)
                     ? communication_s(op, call)
                     : op_s(op, cost_of(op, local_), local_, hardware_, software_));
    } else {
      add_op(s, op, call, fresh, t);
      ns += t.ns;
    }
    clock = start + ns;
    finish.push_back(clock);
  }
  const auto last = std::max_element(finish.begin(), finish.end()) - finish.begin();
  if (finish[last] > free[s.queue]) wait_for(s.ops[last], finish[last] - free[s.queue]);
  t.ns += waited;
}

SegmentTime SegmentTimes::measure(const Call& call, bool fresh) {
  const Segment& s = program_.segment(call);
  SegmentTime t;
  t.again = s.phase == Phase::kRecompute;
  t.head = s.phase == Phase::kJoint;
  t.communicates = !s.ops.empty();
  double launches = 0;
  const bool overlaps = software_.overlap_tensor && uses_inner_queues(s.ops);
  if (overlaps) add_ops_of_queues(s, call, fresh, t);
  for (const Op& op : s.ops) {
    if (!overlaps) add_op(s, op, call, fresh, t);
    launches += kernels_of(op.kind(), software_);
  }
  // The host launches kernels asynchronously; if the launches take longer than the kernels, they
  // set the time of the segment.
  const int64_t host = to_ns(launches * software_.launch_s);
  if (!t.communicates && host > t.ns) {
    t.parts.host += host - t.ns;
    t.ns = host;
  }
  return t;
}

}  // namespace tessera::plan
