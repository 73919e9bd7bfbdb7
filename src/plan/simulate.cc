// Event-driven simulation of the programs of all stages. Each stage has one FIFO per queue; a call
// starts at the latest of: the end of the previous call on its queue, the ends of the calls in its
// `after`, and the readiness of its partners in a message or collective. The result is the smallest
// fixed point of these max-plus equations, so it does not depend on the order in which stages are
// visited.
// Each call is finished once, and a waiting call is retried only when a partner arrives: the cost
// is linear in calls and dependencies. For each call, the event that determined its start is stored
// (`blocker`). Following these backwards attributes every idle interval of the compute queue to
// exposed communication or to the pipeline bubble.
#include "plan/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/real.h"
#include "ir/program.h"
#include "ir/rule.h"
#include "plan/segment_time.h"

namespace tessera::plan {
namespace {

// ---- Adds up the bytes and times of a stage by optimizer.

bool is_optimizer_state(Role r) { return is_flat_state(r) || r == Role::kFactoredMoment; }

// Returns the kind of the weights that an optimizer-state buffer kind belongs to; kNone for other
// kinds.
BufferKindId weights_of(const BufferKind& kind) {
  return kind.factors_of != kNone ? kind.factors_of : kind.like;
}

std::vector<OptimizerPart> optimizer_parts(const Program& p, SegmentTimes& times) {
  std::map<int64_t, OptimizerPart> parts;
  const auto part = [&](BufferKindId weights) -> OptimizerPart& {
    const int64_t group = p[p.kind(weights).values.at(0)].policy;
    parts[group].group = group;
    return parts[group];
  };
  for (const Buffer& f : p.buffers) {
    const BufferKind& kind = p.kind(f.kind);
    if (kind.values.empty() || !is_optimizer_state(p[kind.values[0]].role)) continue;
    if (const BufferKindId weights = weights_of(kind)) part(weights).bytes += kind.bytes;
  }
  for (const Call& call : p.schedule) {
    bool counted = false;
    for (const Op& op : p.segment(call).ops) {
      const BufferKindId weights = members_of(op.attributes);
      if (!weights || rule_of(op).time != TimeGroup::kOptimizer) continue;
      OptimizerPart& own = part(weights);
      if (!counted) own.seconds += seconds_of(times.of(call).parts.optimizer);
      counted = true;
      if (rule_of(op).effects.updates_weights) own.rule = tessera::name_of(op.kind());
    }
  }
  std::vector<OptimizerPart> out;
  for (const auto& [group, own] : parts) out.push_back(own);
  return out;
}

// A call of a stage, or none (kNone).
struct Event {
  int64_t stage = kNone;
  CallId call = kNone;
};

// The rendezvous of a message, or of a collective over several stages.
struct Meeting {
  size_t members = 0;
  int64_t ready = 0;
  Event blocker;               // the event that made the last member ready
  std::vector<Event> arrived;  // one per stage, whose queue is suspended
  // Messages that were sent without waiting for their receiver and have not been received yet.
  std::deque<Event> sent;
};

bool sends(Queue q) { return q == Queue::kSendForward || q == Queue::kSendBackward; }

class Walk {
 public:
  Walk(const std::vector<Program>& stages, const Hardware& h, const Software& software)
      : stages_(stages),
        software_(software),
        copies_compute_(h.device.kind == DeviceKind::kCpu),
        lanes_(stages.size()) {
    for (const Program& p : stages) times_.emplace_back(p, h, software);
    begin_ = std::llround(software.step_s * 1e9);
    for (int64_t s = 0; s < std::ssize(stages); ++s) {
      lanes_[s].times.assign(stages[s].schedule.size(), {0, kPending});
      lanes_[s].blocker.resize(stages[s].schedule.size());
      line_up(s);
    }
  }

  void run();
  int64_t step_ns() const { return end_; }
  Prediction prediction(const Hardware& h);
  Timeline timeline() &&;

 private:
  static constexpr int64_t kPending = -1;

  // A queue of a stage.
  struct QueueState {
    std::vector<CallId> calls;
    size_t next = 0;
    bool waits = false;  // its next call waits for partners
    int64_t free = 0;    // when the previous call ends
  };
  struct Lane {
    EnumArray<Queue, QueueState> queues;
    IdVector<CallId, CallTime> times;
    IdVector<CallId, Event> blocker;  // the event that determined each call's start
  };

  const Program& program(int64_t s) const { return stages_[s]; }
  const CallTime& time(Event e) const { return lanes_[e.stage].times[e.call]; }
  void line_up(int64_t s);
  Queue queue_of(int64_t s, const Call& c);
  Meeting* meeting_of(int64_t s, const Call& c);
  bool step(int64_t s, QueueState& queue);
  void advance(int64_t s);
  void finish(int64_t s, CallId c, int64_t start, int64_t ns, Event blocker);
  bool meet(Meeting& m, int64_t s, CallId c, int64_t ready, Event blocker, int64_t ns);
  bool pass(Meeting& m, int64_t s, CallId c, int64_t ready, Event blocker, int64_t ns);
  void wait(int64_t from, int64_t to, Event blocker, PartsNs& parts);
  PartsNs parts_of(int64_t s);
  void count(Prediction& p);

  const std::vector<Program>& stages_;
  const Software& software_;
  bool copies_compute_;  // host copies run on the processor that computes
  std::vector<SegmentTimes> times_;
  std::vector<Lane> lanes_;
  std::vector<std::array<Meeting, 2>> messages_;  // by sending stage; forward, backward
  std::map<GroupRef, Meeting> groups_;
  std::vector<int64_t> runnable_;
  int64_t begin_ = 0, end_ = 0;
  Event last_;
};

Queue Walk::queue_of(int64_t s, const Call& c) {
  const Queue q = program(s).segment(c).queue;
  // Receives are always posted early; without overlap the sender waits for the transfer.
  if (sends(q) && !software_.overlap_pipeline) return Queue::kCompute;
  const bool moves = q == Queue::kData || q == Queue::kGroups;
  if (moves && !software_.overlap_data) return Queue::kCompute;
  const bool copies = q == Queue::kCopyIn || q == Queue::kCopyOut;
  if (copies && copies_compute_) return Queue::kCompute;
  return q;
}

// Fills the queues. Software that does not overlap gradient reductions runs them after the last
// backward of its stage, not between calls that other stages wait for, unless a call depends on a
// reduction that is held back.
void Walk::line_up(int64_t s) {
  Lane& lane = lanes_[s];
  std::vector<CallId> held;
  for (const CallId c : program(s).schedule.ids()) {
    const Call& call = program(s).call(c);
    const Queue q = program(s).segment(call).queue;
    const bool sums = (q == Queue::kData || q == Queue::kGroups) &&
                      call.comm.kind != CommKind::kAllGather && call.microbatch == kNone;
    if (sums && !software_.overlap_data) {
      held.push_back(c);
      continue;
    }
    std::vector<CallId>& compute = lane.queues[Queue::kCompute].calls;
    const bool needed = std::any_of(call.after.begin(), call.after.end(), [&](CallId a) {
      return std::find(held.begin(), held.end(), a) != held.end();
    });
    if (needed || (q == Queue::kCompute && call.microbatch == kNone)) {
      compute.insert(compute.end(), held.begin(), held.end());
      held.clear();
    }
    lane.queues[queue_of(s, call)].calls.push_back(c);
  }
  lane.queues[Queue::kCompute].calls.insert(lane.queues[Queue::kCompute].calls.end(), held.begin(),
                                            held.end());
  for (QueueState& queue : lane.queues) queue.free = begin_;
}

// Returns the rendezvous of a call, or nullptr if it involves one stage only.
Meeting* Walk::meeting_of(int64_t s, const Call& c) {
  if (stages_.size() == 1) return nullptr;
  const Queue q = program(s).segment(c).queue;
  if (q >= Queue::kSendForward) {
    if (c.comm.peer == kNone) return nullptr;
    const bool backward = q == Queue::kSendBackward || q == Queue::kReceiveBackward;
    Meeting& m = messages_[sends(q) ? s : c.comm.peer][backward];
    m.members = 2;
    return &m;
  }
  const GroupRef& over = c.comm.over;
  if (over.kind == GroupRef::Kind::kAxes) return nullptr;
  Meeting& m = groups_.try_emplace(over).first->second;
  m.members = over.kind == GroupRef::Kind::kWorld ? stages_.size() : over.stages.size();
  return &m;
}

void Walk::finish(int64_t s, CallId c, int64_t start, int64_t ns, Event blocker) {
  Lane& lane = lanes_[s];
  QueueState& queue = lane.queues[queue_of(s, program(s).call(c))];
  lane.times[c] = {start, start + ns};
  lane.blocker[c] = blocker;
  queue.free = start + ns;
  queue.waits = false;
  ++queue.next;
  if (start + ns >= end_) {
    end_ = start + ns;
    last_ = {s, c};
  }
}

// Adds a member to a rendezvous. When the last one has arrived, all finish at the same time.
// Returns true if they did.
bool Walk::meet(Meeting& m, int64_t s, CallId c, int64_t ready, Event blocker, int64_t ns) {
  if (m.arrived.empty() || ready > m.ready) {
    m.ready = ready;
    m.blocker = blocker;
  }
  m.arrived.push_back({s, c});
  if (m.arrived.size() < m.members) return false;
  for (const Event& e : m.arrived) {
    finish(e.stage, e.call, m.ready, ns, m.blocker);
    if (e.stage != s) runnable_.push_back(e.stage);
  }
  m.arrived.clear();
  return true;
}

// Finishes the next call of a queue if possible. Returns true if it did.
bool Walk::step(int64_t s, QueueState& queue) {
  if (queue.waits || queue.next == queue.calls.size()) return false;
  const Lane& lane = lanes_[s];
  const CallId c = queue.calls[queue.next];
  const Call& call = program(s).call(c);
  int64_t ready = queue.free;
  Event blocker{s, queue.next == 0 ? CallId() : queue.calls[queue.next - 1]};
  for (const CallId a : call.after) {
    const int64_t t = lane.times[a].finish_ns;
    if (t == kPending) return false;
    if (t > ready) {
      ready = t;
      blocker.call = a;
    }
  }
  if (blocker.call == kNone) blocker.stage = kNone;
  const int64_t ns = times_[s].of(call).ns;
  Meeting* const meeting = meeting_of(s, call);
  if (meeting == nullptr) {
    finish(s, c, ready, ns, blocker);
    return true;
  }
  if (!software_.overlap_pipeline && program(s).segment(call).queue >= Queue::kSendForward)
    return pass(*meeting, s, c, ready, blocker, ns);
  queue.waits = true;
  return meet(*meeting, s, c, ready, blocker, ns);
}

// Processes a send or receive of a message whose sender waits for the transfer but not for the
// receiver. Returns true if the call finished.
bool Walk::pass(Meeting& m, int64_t s, CallId c, int64_t ready, Event blocker, int64_t ns) {
  const int64_t own = s;
  if (sends(program(s).segment(program(s).call(c)).queue)) {
    finish(s, c, ready, ns, blocker);
    m.sent.push_back({own, c});
    if (!m.arrived.empty()) {
      runnable_.push_back(m.arrived.front().stage);
      m.arrived.clear();
    }
    return true;
  }
  if (m.sent.empty()) {
    if (m.arrived.empty()) m.arrived.push_back({own, c});
    return false;
  }
  const Event from = m.sent.front();
  m.sent.pop_front();
  // Such software allocates a new buffer per message, so no transfer waits for a buffer.
  finish(s, c, time(from).finish_ns, 0, from);
  return true;
}

void Walk::advance(int64_t s) {
  for (bool moved = true; moved;) {
    moved = false;
    for (QueueState& queue : lanes_[s].queues)
      while (step(s, queue)) moved = true;
  }
}

void Walk::run() {
  messages_.resize(stages_.size());
  end_ = begin_;
  for (int64_t s = std::ssize(stages_); s-- > 0;) runnable_.push_back(s);
  while (!runnable_.empty()) {
    const int64_t s = runnable_.back();
    runnable_.pop_back();
    advance(s);
  }
  for (int64_t s = 0; s < std::ssize(stages_); ++s)
    for (const QueueState& queue : lanes_[s].queues)
      CHECK(queue.next == queue.calls.size(), "stage {} is deadlocked in {}", s,
            call_name(program(s), queue.calls[queue.next]));
}

// Attributes the idle time from `from` to `to` to communication while it runs, otherwise to the
// bubble. Walks back through communicating blockers, each of which accounts for the time since its
// start.
void Walk::wait(int64_t from, int64_t to, Event blocker, PartsNs& parts) {
  while (to > from && blocker.stage != kNone) {
    const int64_t stage = blocker.stage;
    const SegmentTime& t = times_[stage].of(program(stage).call(blocker.call));
    if (!t.communicates) break;
    const int64_t start = std::clamp(time(blocker).start_ns, from, to);
    parts.exposed[t.traffic] += to - start;
    to = start;
    blocker = lanes_[stage].blocker[blocker.call];
  }
  parts.bubble += to - from;
}

PartsNs Walk::parts_of(int64_t s) {
  PartsNs parts;
  parts.host = begin_;
  int64_t done = begin_;
  const Program& p = program(s);
  for (const CallId c : lanes_[s].queues[Queue::kCompute].calls) {
    const Call& call = p.call(c);
    const CallTime& t = lanes_[s].times[c];
    wait(done, t.start_ns, lanes_[s].blocker[c], parts);
    parts += times_[s].of(call).parts;
    done = t.finish_ns;
  }
  wait(done, end_, last_, parts);
  return parts;
}

// Counts the operations and tokens of the step.
void Walk::count(Prediction& p) {
  const Mesh& mesh = program(0).mesh;
  const double ranks = ratio(mesh.ranks(), mesh[AxisKind::kPipeline]);
  bool full = false;
  double head = 0;
  for (int64_t s = 0; s < std::ssize(stages_); ++s)
    for (const Call& c : program(s).schedule) {
      const SegmentTime& t = times_[s].of(c);
      p.model_flops += ranks * t.flops.model;
      p.hardware_flops += ranks * t.flops.hardware;
      p.square_flops += ranks * t.flops.square;
      if (t.head) head += ranks * t.flops.square;
      full |= t.again;
    }
  // With full recomputation, the Frontier counter multiplies the layers by 4/3, but not the head.
  p.counter_flops = head + (p.square_flops - head) * (full ? 4.0 / 3 : 1);
  for (const Buffer& f : program(0).buffers) {
    const BufferKind& kind = program(0).kind(f.kind);
    for (const ValueId v : kind.values)
      if (program(0)[v].role == Role::kTokens) p.tokens += program(0)[v].shape.elements();
  }
}

Prediction Walk::prediction(const Hardware& h) {
  Prediction p;
  p.step_s = seconds_of(end_);
  p.devices = program(0).mesh.ranks();
  DType type = DType::kF32;
  for (int64_t s = 0; s < std::ssize(stages_); ++s) {
    StagePrediction stage;
    stage.parts = parts_of(s).seconds();
    stage.optimizers = optimizer_parts(program(s), times_[s]);
    set_memory(stage, compile::memory_plan(program(s)), h.device);
    p.parts += stage.parts;
    p.stages.push_back(stage);
    if (stage.peak_bytes > p.fullest().peak_bytes) p.fullest_stage = s;
    for (const Value& v : program(s).values)
      if (v.role == Role::kWeight && v.dtype != DType::kF32) type = v.dtype;
  }
  p.parts *= ratio(1, stages_.size());
  p.peak_dtype = type;
  p.peak_flops_per_s = type == DType::kF32 ? h.device.fp32_flops_per_s : h.device.bf16_flops_per_s;
  p.usd_per_device_hour = h.price.usd_per_device_hour;
  count(p);
  return p;
}

Timeline Walk::timeline() && {
  Timeline t;
  t.step_ns = end_;
  for (Lane& lane : lanes_) t.calls.push_back(std::move(lane.times));
  return t;
}

}  // namespace

void set_memory(StagePrediction& stage, const compile::MemoryPlan& memory, const DeviceFigures& d) {
  stage.memory = memory;
  stage.peak_bytes = memory.arena + outside_bytes(d, memory.communicators);
  if (d.kind == DeviceKind::kCpu) stage.peak_bytes += memory.host;  // one shared memory
}

Prediction simulate(const std::vector<Program>& stages, const Hardware& hardware,
                    const Software& software) {
  const Software here = on_machine(software, hardware);
  Walk walk(stages, hardware, here);
  walk.run();
  return walk.prediction(hardware);
}

Timeline timeline_of(const std::vector<Program>& stages, const Hardware& hardware,
                     const Software& software) {
  const Software here = on_machine(software, hardware);
  Walk walk(stages, hardware, here);
  walk.run();
  return std::move(walk).timeline();
}

}  // namespace tessera::plan
