// The queues of a program as streams of a GPU, waits of calls and of ops as events, and the times
// of transfers in these streams.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "ir/program.h"
#include "runtime/events.h"
#include "tensor/gpu.h"

namespace tessera::runtime {

class DeviceQueues {
 public:
  explicit DeviceQueues(const Program& program);  // which outlives it

  Stream stream(Queue q) const { return streams_[static_cast<size_t>(q)]->get(); }
  Stream main() const { return stream(Queue::kCompute); }

  // Makes all other streams wait for what is in the main one, for calls from `first` on: those
  // before it are done.
  void fork(CallId first);
  // The stream of the call waits for the calls it comes after, and the streams of its inner queues
  // for that one; it goes on when they are over.
  void before(CallId c);
  void after(CallId c);
  // The stream of op number `op` of the call waits for the ops it comes after.
  void before_op(CallId c, size_t op) const;
  void after_op(CallId c, size_t op);
  void join();  // the main one goes on when all are over
  // Around the transfers of a call in its stream: each comes after all before it.
  void before_transfer(Stream s) const;
  void after_transfer(Stream s);

 private:
  // Of a segment with inner queues: these, and the number of the event of each op that another
  // queue waits for, or kNone.
  struct InnerQueues {
    std::vector<Queue> queues;
    std::vector<int64_t> event_of;
  };
  void find_inner_queues(SegmentId id);
  const InnerQueues& inner(CallId c) const { return inner_[program_.call(c).segment]; }
  GpuEvent& event(int64_t i) { return events_[i]; }

  Queue queue_of(CallId c) const { return program_.segment(program_.call(c)).queue; }

  const Program& program_;
  std::array<std::unique_ptr<GpuStream>, kQueues> streams_;  // of the queues it has
  IdVector<CallId, int64_t> event_of_;  // of each call that another queue waits for; else kNone
  IdVector<SegmentId, InnerQueues> inner_;
  std::vector<GpuEvent> events_;
  CallId first_{0};
  GpuEvent fork_, inner_fork_, transfer_;
  bool transferred_ = false;     // since fork()
  std::vector<GpuEvent> joins_;  // one a queue
};

// Times of the transfers of one run on a device, by events with timing around them.
class TransferTimes {
 public:
  enum class What { kTransfer, kWait, kBoth };  // kBoth: a transfer of the compute queue

  void start() { used_ = 0; }  // starts a run
  // Between these two in a stream: a transfer, or a wait of the compute queue for one.
  void begin(Stream s, What what, const GroupRef& group);
  void end(Stream s);
  // After the run: adds the seconds to `time`.
  void collect(CommunicationTime& time) const;

 private:
  struct Span {
    GpuEvent from{GpuEvent::Timing::kOn}, to{GpuEvent::Timing::kOn};
    What what = What::kTransfer;
    GroupRef group;
  };
  std::vector<Span> spans_;  // kept for the next run that is timed
  size_t used_ = 0;
};

}  // namespace tessera::runtime
