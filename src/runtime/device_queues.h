// The queues of a program as streams of a GPU, and `after` as events.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "ir/program.h"
#include "tensor/gpu.h"

namespace tessera {

class DeviceQueues {
 public:
  explicit DeviceQueues(const Program& program);  // which outlives it

  Stream stream(Queue q) const { return streams_[static_cast<size_t>(q)]->get(); }
  Stream main() const { return stream(Queue::kCompute); }

  // Makes all other streams wait for what is in the main one, for calls from `first` on: those
  // before it are done.
  void fork(CallId first);
  void before(CallId c);  // the stream of the call waits for the calls it comes after
  void after(CallId c);
  void join();  // the main one goes on when all are over
  // Around the transfers of a call in its stream: each comes after all before it.
  void before_transfer(Stream s) const;
  void after_transfer(Stream s);

 private:
  Queue queue_of(CallId c) const { return program_.segment(program_.call(c)).queue; }

  const Program& program_;
  std::array<std::unique_ptr<GpuStream>, kQueues> streams_;  // of the queues it has
  IdVector<CallId, int64_t> event_of_;  // of each call that another queue waits for; else kNone
  std::vector<GpuEvent> events_;
  CallId first_{0};
  GpuEvent fork_, transfer_;
  bool transferred_ = false;     // since fork()
  std::vector<GpuEvent> joins_;  // one a queue
};

}  // namespace tessera
