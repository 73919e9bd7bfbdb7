// The state of an executor on a GPU, in addition to the arena.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device_marks.h"
#include "runtime/device_queues.h"
#include "runtime/transfer_times.h"

namespace tessera {

// Nodes of one graph: more take seconds to instantiate at once. A run of more is several graphs,
// one after another, each of a piece of the schedule.
constexpr int64_t kMostGraphNodes = 16'384;
// Nodes of all graphs of a program, which take memory of the device (about 4 KiB each: estimated,
// part of kGpuOutsideBytes). A run of more stays call by call.
constexpr int64_t kMostNodes = 65'536;
// With several ranks, the times of transfers are measured in one run of this many, call by call.
constexpr int64_t kRunsPerTiming = 100;

struct DeviceState {
  explicit DeviceState(const Program& program) : queues(program) {}

  DeviceQueues queues;
  std::vector<TensorView> sent;     // before each run: addresses of the mirror
  std::vector<TensorView> fetched;  // after it: addresses of the device
  std::vector<MemoryRange> pinned;  // of the mirror
  GpuEvent read, fetched_results;   // of what was sent; of the oldest run
  bool fetching = false;            // the oldest run's results are enqueued
  int under_way = 0;                // runs that are not finished
  int64_t runs = 0;                 // started, without those with an observer

  // The run as graphs, in order; empty: call by call.
  std::vector<GpuGraph> graphs;
  double graph_seed = 0;
  bool too_many_nodes = false;
  std::map<GroupRef, int64_t> graph_bytes;  // group: bytes that a launch sends
  int64_t most_graph_nodes = kMostGraphNodes, most_nodes = kMostNodes;

  // For transfers on streams.
  DeviceMarks marks;
  TransferTimes times;
  CommunicationTime measured;  // the seconds of the last run that was timed
  bool timing_due() const { return marks.used() && runs % kRunsPerTiming == 1; }
  int64_t marks_seen = -1;  // by the host, when it last looked
};

}  // namespace tessera
