// Machines and programs with figures that a test can compute by hand.
#pragma once

#include <limits>

#include "compile/schedule/pipeline.h"
#include "plan/simulate.h"

namespace tessera::testing {

// Two nodes' worth of everything at round numbers; no launch, no shortest kernel.
inline plan::Hardware plain_machine() {
  plan::Hardware h;
  h.name = "plain";
  h.device.name = "plain";
  h.device.memory_bytes = 1e12;
  h.device.memory_bytes_per_s = 1e12;
  h.device.memory_efficiency = 1;
  h.device.bf16_flops_per_s = 2e14;
  h.device.fp32_flops_per_s = 1e14;
  h.device.matrix_efficiency = 1;
  h.device.host_bytes_per_s = 1e11;
  h.node.devices = 4;
  h.node.bytes_per_s = 1e11;
  h.node.efficiency = 1;
  h.node.latency_s = 1e-6;
  h.network.bytes_per_s = 1e11;
  h.network.adapters = 4;
  h.network.efficiency = 1;
  h.network.latency_s = 5e-6;
  return h;
}

inline plan::Hardware with_free_messages(plan::Hardware h) {
  h.node.bytes_per_s = h.network.bytes_per_s = 1e30;
  h.node.latency_s = h.network.latency_s = 0;
  return h;
}

// A pipeline's schedule and nothing else: each action is one sweep over so many bytes, and messages
// carry one number. Every call has buffers' place but none is needed: waits are given by hand.
class SchedulePrograms {
 public:
  // Bytes of a forward; a backward takes twice as many.
  SchedulePrograms(const compile::PipelineShape& shape, int64_t bytes)
      : shape_(shape), bytes_(bytes) {}

  std::vector<Program> make() {
    const auto lists = compile::pipeline_actions(shape_);
    for (int64_t s = 0; s < shape_.stages; ++s) programs_.push_back(empty(s));
    struct Item {
      int64_t time;
      bool is_action;
      compile::Action action;
      int64_t stage;
    };
    std::vector<Item> items;
    for (int64_t s = 0; s < shape_.stages; ++s)
      for (const compile::Action& a : lists[static_cast<size_t>(s)]) {
        items.push_back({a.start, true, a, s});
        items.push_back({a.finish, false, a, s});
      }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::pair(a.time, a.is_action) < std::pair(b.time, b.is_action);
    });
    for (const Item& i : items)
      if (i.is_action)
        act(i.stage, i.action);
      else
        message(i.stage, i.action);
    return std::move(programs_);
  }

 private:
  static constexpr SegmentId kF{0}, kB{1}, kSendF{2}, kReceiveF{3}, kSendB{4}, kReceiveB{5};

  Program empty(int64_t stage) const {
    Program p;
    p.mesh[AxisKind::kPipeline] = shape_.stages;
    p.stage = stage;
    const auto value = [&](int64_t bytes) {
      Value v;
      v.name = "x";
      v.dtype = DType::kU8;
      v.shape = {bytes};
      p.values.push_back(v);
    };
    value(bytes_);
    value(2 * bytes_);
    value(1);
    const auto segment = [&](const char* name, OpAttributes attributes, Queue queue, ValueId in,
                             ValueId out) {
      Op op;
      op.attributes = std::move(attributes);
      if (in != kNone) op.inputs = {in};
      if (out != kNone) op.outputs = {out};
      Segment s;
      s.set_name(name);
      s.queue = queue;
      s.ops = {op};
      p.segments.push_back(s);
    };
    segment("forward.layer", Sum{}, Queue::kCompute, ValueId(0), kNone);
    segment("backward.layer", Sum{}, Queue::kCompute, ValueId(1), kNone);
    segment("send_forward", Send{}, Queue::kSendForward, ValueId(2), kNone);
    segment("receive_forward", Receive{}, Queue::kReceiveForward, kNone, ValueId(2));
    segment("send_backward", Send{}, Queue::kSendBackward, ValueId(2), kNone);
    segment("receive_backward", Receive{}, Queue::kReceiveBackward, kNone, ValueId(2));
    return p;
  }

  void call(int64_t stage, SegmentId segment, int64_t microbatch, std::vector<CallId> after,
            int64_t peer = kNone) {
    Call c;
    c.segment = segment;
    c.microbatch = microbatch;
    c.after = std::move(after);
    if (peer != kNone) c.comm = {CommKind::kSend, {}, peer, "x", 1};
    programs_[static_cast<size_t>(stage)].schedule.push_back(c);
  }
  CallId last(int64_t stage) const {
    return CallId(programs_[static_cast<size_t>(stage)].schedule.size() - 1);
  }

  void act(int64_t stage, const compile::Action& a) {
    const bool forward = a.kind == compile::ActionKind::kForward;
    const auto received = received_.find({forward, a.chunk, a.microbatch});
    call(stage, forward ? kF : kB, a.microbatch,
         received == received_.end() ? std::vector<CallId>{} : std::vector{received->second});
    done_[{forward, a.chunk, a.microbatch}] = last(stage);
  }

  void message(int64_t stage, const compile::Action& a) {
    const bool forward = a.kind == compile::ActionKind::kForward;
    const int64_t to = forward ? a.chunk + 1 : a.chunk - 1;
    if (to < 0 || to >= shape_.chunks()) return;
    const int64_t peer = to % shape_.stages;
    if (peer == stage) return;
    call(stage, forward ? kSendF : kSendB, a.microbatch,
         {done_.at({forward, a.chunk, a.microbatch})}, peer);
    call(peer, forward ? kReceiveF : kReceiveB, a.microbatch, {}, stage);
    received_[{forward, to, a.microbatch}] = last(peer);
  }

  using Key = std::tuple<bool, int64_t, int64_t>;
  compile::PipelineShape shape_;
  int64_t bytes_;
  std::vector<Program> programs_;
  std::map<Key, CallId> done_, received_;
};

}  // namespace tessera::testing
