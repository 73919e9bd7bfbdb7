// Maps a program to a GPU: queues are streams, and waits between calls or ops are events. Also
// measures the times of transfers in these streams.
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
  explicit DeviceQueues(const Program& program);  // must outlive this object

  Stream stream(Queue q) const { return streams_[static_cast<size_t>(q)]->get(); }
  Stream main() const { return stream(Queue::kCompute); }

  // Makes all other streams wait for what is enqueued in the main stream. The calls that follow
  // start at `first`; earlier calls are complete.
  void fork(CallId first);
  // before(): the stream of the call waits for the calls that it comes after, and the streams of
  // its inner queues wait for the stream of the call. after(): the stream of the call waits for the
  // streams of its inner queues.
  void before(CallId c);
  void after(CallId c);
  // before_op(): the stream of op number `op` of the call waits for the ops that it comes after.
  // after_op(): records the event that later ops wait for.
  void before_op(CallId c, size_t op) const;
  void after_op(CallId c, size_t op);
  void join();  // the main stream waits for all other streams
  // Called around each transfer in the stream: a transfer waits for the previous one of any stream.
  void before_transfer(Stream s) const;
  void after_transfer(Stream s);

 private:
  // The inner queues of a segment, and for each op the index of its event, or kNone if no other
  // queue waits for the op.
  struct InnerQueues {
    std::vector<Queue> queues;
    std::vector<int64_t> event_of;
  };
  void find_inner_queues(SegmentId id);
  const InnerQueues& inner(CallId c) const { return inner_[program_.call(c).segment]; }
  GpuEvent& event(int64_t i) { return events_[i]; }

  Queue queue_of(CallId c) const { return program_.segment(program_.call(c)).queue; }

  const Program& program_;
  std::array<std::unique_ptr<GpuStream>, kQueues> streams_;  // nullptr for queues without calls
  IdVector<CallId, int64_t> event_of_;  // index in events_, or kNone if no other queue waits
  IdVector<SegmentId, InnerQueues> inner_;
  std::vector<GpuEvent> events_;
  CallId first_{0};
  GpuEvent fork_, inner_fork_, transfer_;
  bool transferred_ = false;     // whether there was a transfer since fork()
  std::vector<GpuEvent> joins_;  // one per queue
};

// Measures the transfers of one run on a device with timed events.
class TransferTimes {
 public:
  enum class What { kTransfer, kWait, kBoth };  // kBoth: a transfer of the compute queue

  void start() { used_ = 0; }  // starts a run
  // Called before and after a transfer in a stream, or a wait of the compute queue for a transfer.
  void begin(Stream s, What what, const GroupRef& group);
  void end(Stream s);
  // Adds the seconds to `time`. Call it after the run.
  void collect(CommunicationTime& time) const;

 private:
  struct Span {
    GpuEvent from{GpuEvent::Timing::kOn}, to{GpuEvent::Timing::kOn};
    What what = What::kTransfer;
    GroupRef group;
  };
  std::vector<Span> spans_;  // reused by the next timed run
  size_t used_ = 0;
};

}  // namespace tessera::runtime
