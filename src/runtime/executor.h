// Runs a program on one arena. Calls of the compute queue run here and now, in issue order, each
// when the calls it comes after are over; the others stand in the line of their queue, first in,
// first out, and are moved on by another thread (mover.h), and by this one when it waits. A run
// ends when all lines are empty, so `before_step` always holds, and between runs no thread but the
// caller's uses the world.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "runtime/channels.h"
#include "runtime/device_state.h"
#include "runtime/events.h"
#include "runtime/mover.h"
#include "runtime/poison.h"
#include "runtime/prepared_kernels.h"
#include "runtime/prepared_op.h"

namespace tessera {

struct ExecutorOptions {
  bool poison = false;                 // see poison.h
  std::function<double()> now_s = {};  // without it all times are zero
  // Of an arena of a GPU: memory of the host, as large, for what both sides see.
  std::byte* mirror = nullptr;
  std::byte* host = nullptr;  // program.host_bytes of memory of the host
  bool graphs = true;         // runs on a device become one launch where no rank waits for another
};

class Executor {
 public:
  // `arena` has program.bytes bytes and, like kernels and channels, outlives the executor.
  Executor(Program program, std::byte* arena, PreparedKernels& kernels, const Channels& channels,
           ExecutorOptions options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The observer hears of an op when it is over; to let it see each op's outputs, transfers then
  // move between ops only. Throws Error if a peer is lost.
  void run(const std::function<void(const OpEvent&)>& observe = {});

  // run() in two, where runs are launches of a graph: a second one may start before the first is
  // finished, and the device goes from one to the other without a pause. finish() waits for the
  // oldest; `report` is that one's until the next start() or finish(). If a run was skipped, so is
  // one that started before its finish (kSkipBefore).
  bool can_be_ahead() const;
  void start();
  void finish();
  // Until what the host wrote for the last start() has been read: before it writes anew.
  void wait_until_read() const;

  // From now on `started` is called when an op starts. It must be cheap compared with an op.
  void on_start(std::function<void(const OpStart&)> started) { started_ = std::move(started); }

  // From now on called before each call that changes weights and moments: who still reads them
  // holds the run up there.
  void before_update(std::function<void()> wait) { before_update_ = std::move(wait); }

  // `say` is called once with the numbers of graphs and nodes of a run on a device.
  void on_capture(std::function<void(const std::string&)> say) { captured_ = std::move(say); }

  // The communication of the last finished run. If runs are launches of graphs, the seconds are
  // those of the last run that was timed (one in kRunsPerTiming).
  const CommunicationTime& communication() const { return time_; }
  Waiting waiting() const;  // from any thread

  const Program& program() const { return program_; }
  // A value in a state frame, for the host. layer and microbatch count only where the value has one
  // for each. On a GPU it is a copy: what is in `batch` and `step` goes there before each
  // run, what is in `report` and activations comes from there after it.
  TensorView view(ValueId v, int64_t layer = 0, int64_t microbatch = 0) const;
  // Other values: the device's bytes to their copy, which is returned, or the copy's bytes to the
  // device. On the CPU both are one.
  TensorView fetch(const TensorView& device) const;
  void send(const TensorView& host) const;
  TensorView mirrored(const TensorView& device) const;       // the copy's place
  int64_t first_non_finite(const TensorView& device) const;  // see OpEvent
  // On a GPU, what each run brings to it and back: places of the copy.
  std::vector<TensorView> exchanged() const;
  DeviceState& device() { return *device_; }  // on a GPU only
  // Returns the value of a role that one value of the program has. Aborts if there is none.
  ValueId only(Role role) const;
  bool has(Role role) const { return find(role) != kNone; }

 private:
  struct Transfer {
    Ticket ticket = 0;
    double since_s = 0;
    BoundOp bound;  // the prepared one may be bound anew before the transfer is over
  };
  // A call of a queue that is not over; it is under way if `op` is not kNone.
  struct Active {
    CallId call = kNone;
    int64_t op = kNone;
    std::optional<Transfer> transfer = {};  // of that op
  };
  // The first is under way, and the second too where it may_lead.
  using Line = std::deque<Active>;

  ValueId find(Role role) const;
  void prepare(const Segment& segment, std::vector<PreparedOp>& out);
  void prepare_members(PreparedOp& p) const;
  PreparedOperand operand(const Segment& segment, ValueId v) const;
  std::byte* frame(FrameId f) const;
  std::byte* address(const PreparedOperand& o, const Call& call, const Segment& segment) const;
  void bind(PreparedOp& op, const Call& call, const Segment& segment) const;

  // On a GPU (executor_gpu.cc).
  void prepare_device();
  bool graph_wanted() const;
  void run_on_device();
  void send_frames();
  void fetch_results();
  void carry_skip() const;
  enum class Enqueue { kPlain, kTimed, kCapture };
  bool enqueue(Enqueue how);
  void begin_call(CallId c, Enqueue how);
  bool capture();
  bool cut_graph(CallId next);
  void launch();
  void count_launch();
  std::map<GroupRef, int64_t> bytes_sent() const;
  void exchange_through_host(PreparedOp& op);
  void exchange_on_stream(CallId c, PreparedOp& op, Enqueue how);
  void wait_for(const GpuEvent& event);
  void tell_transfer(double since_s);
  void abandon();
  TensorView fetch_in(const BoundOp& b, const TensorView& t) const;
  std::byte* on_device(const TensorView& host) const;
  std::vector<MemoryRange> pieces_of(const TensorView& host) const;
  void copy_to_host(Stream s, const TensorView& host) const;  // places of the copy
  void copy_to_device(Stream s, const TensorView& host) const;
  bool in_arena(const void* p) const;

  // The run (executor_run.cc).
  std::vector<PreparedOp>& ops_of(CallId c);
  void issue(CallId c);
  void compute(CallId c);
  bool move_lines();
  void begin(CallId c);
  void end(CallId c);
  void announce(CallId c, const PreparedOp& op, bool waits) const;
  void observe(CallId c, const BoundOp& op, double start_s) const;
  bool may_start(const Call& call) const;
  bool progress();
  bool move(Line& line);
  bool move_first(Line& line);
  bool move_op(Active& a, PreparedOp& op);
  bool lead(Line& line);
  Transfer start(const PreparedOp& op) const;
  bool finish(const Transfer& t);
  void exchange(CallId c, PreparedOp& op);
  void wait_for(CallId c);
  template <class Over, class Move>
  void wait(const Over& over, const Move& move, CallId c, const PreparedOp* op);
  GroupRef group_of_call(CallId c, const PreparedOp* op);
  void tell(CallId c, const PreparedOp* op, double since_s);
  void count_bytes(int64_t sign);
  double now_s() const { return options_.now_s ? options_.now_s() : 0; }
  Line& line_of(CallId c) {
    return lines_[static_cast<size_t>(program_.segment(program_.call(c)).queue)];
  }

  Program program_;
  ValueVector local_;  // the values with the shapes of this rank, as kernels know them
  std::byte* arena_;
  PreparedKernels& kernels_;
  const Channels& channels_;
  ExecutorOptions options_;
  IdVector<SegmentId, std::vector<PreparedOp>> prepared_;
  std::vector<std::pair<GroupRef, Communicator*>> used_;  // by group
  std::optional<Poison> poison_;
  std::optional<DeviceState> device_;  // on a GPU
  const double* host_step_ = nullptr;
  std::function<void(const std::string&)> captured_;
  IdVector<SegmentId, bool> updates_;
  IdVector<CallId, bool> may_lead_;  // see lead.h
  std::function<void(const OpStart&)> started_;
  std::function<void()> before_update_;
  const std::function<void(const OpEvent&)>* observe_ = nullptr;
  // What the mover shares: from here to `failed_`, and all that communicates.
  std::mutex moving_;
  IdVector<CallId, bool> over_;
  std::array<Line, kQueues> lines_;
  int64_t queued_ = 0;  // calls in all lines
  CommunicationTime time_;
  std::exception_ptr failed_;  // what the mover met
  mutable std::mutex waiting_mutex_;
  Waiting waiting_;
  std::optional<Mover> mover_;  // last: it stops before the rest goes
};

}  // namespace tessera
