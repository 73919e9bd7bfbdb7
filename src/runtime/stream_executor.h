// Runs a program on a GPU (docs/decisions/cuda.md): calls are enqueued in issue order, each in the
// stream of its queue; later runs are launches of graphs.
#pragma once

#include "runtime/device_marks.h"
#include "runtime/device_queues.h"
#include "runtime/executor.h"
#include "runtime/step_exchange.h"
#include "runtime/step_graphs.h"
#include "runtime/wait_report.h"

namespace tessera::runtime {

// With several ranks, one run in this many is enqueued call by call to measure its transfers.
constexpr int64_t kRunsPerTiming = 100;

class StreamExecutor : public Executor {
 public:
  // All arguments must outlive this object.
  StreamExecutor(BoundProgram& bound, const kernels::KernelTable& kernels, const RunHooks& hooks);

  void run(const Observer& observe = {}) override;
  bool can_run_ahead() const override;
  void start() override;
  void finish() override;
  void wait_until_read() const override;
  TensorView fetch(const TensorView& device) const override;
  void send(const TensorView& host) const override;
  int64_t first_non_finite(const TensorView& device) const override;
  const CommunicationTime& communication() const override { return time_; }
  Waiting waiting() const override { return waiting_.get(); }

  const StepExchange& exchange() const { return exchange_; }
  StepGraphs& graphs() { return graphs_; }

 private:
  enum class Enqueue { kPlain, kTimed, kCapture };

  bool graphs_wanted() const;
  void launch_graphs();
  bool timing_due() const { return marks_.used() && runs_ % kRunsPerTiming == 1; }
  bool run_calls();
  bool enqueue(Enqueue how);
  void begin_call(CallId c, Enqueue how);
  template <class Waits>
  void enqueue_waits(const GroupRef& group, Enqueue how, const Waits& waits);
  bool cut_full_graph(CallId next);
  void capture(double seed);
  void exchange_on_stream(CallId c, PreparedOp& op, Enqueue how);
  void exchange_on_host(PreparedOp& op);
  void wait_for(const GpuEvent& event);
  void report_transfer(double since_s);

  const kernels::KernelTable& kernels_;
  const RunHooks& hooks_;
  bool updates_host_;  // a run changes state in host memory
  OpReporter report_;
  DeviceQueues queues_;
  StepExchange exchange_;
  StepGraphs graphs_;
  int under_way_ = 0;  // runs that are started and not finished
  int64_t runs_ = 0;   // runs started, except those with an observer
  // For transfers in streams.
  DeviceMarks marks_;
  TransferTimes times_;
  CommunicationTime measured_;  // the seconds of the last timed run
  CommunicationTime time_;
  WaitReport waiting_;
};

}  // namespace tessera::runtime
