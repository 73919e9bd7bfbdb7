// A run on a GPU as a sequence of graphs. Each graph contains a part of the schedule.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/gpu.h"

namespace tessera::runtime {

struct GraphLimits {
  // Maximum nodes of one graph: larger graphs take seconds to instantiate.
  int64_t graph_nodes = 16'384;
  // Maximum nodes of all graphs of a program. A node needs about 4 KiB of device memory (estimated;
  // part of kGpuOutsideBytes). A program with more nodes is enqueued call by call.
  int64_t nodes = 65'536;
};

class StepGraphs {
 public:
  GraphLimits limits;

  bool empty() const { return graphs_.empty(); }
  int64_t size() const { return std::ssize(graphs_); }
  // Returns whether the program has too many nodes for graphs.
  bool refused() const { return refused_; }
  // Returns whether there are graphs for this seed. Graphs contain the keys of stochastic rounding,
  // which depend on it.
  bool is_for(double seed) const { return !empty() && seed == seed_; }

  // A capture calls begin(), then cut() whenever is_full(), then end().
  void begin(Stream main);
  bool is_full() const;
  // Ends a graph and begins the next one. The caller joins its streams before and forks them after
  // it. Returns false if there are too many nodes.
  bool cut(Stream main);
  // Ends the capture. `whole`: cut() never returned false.
  void end(Stream main, bool whole, double seed);
  // Destroys all graphs, and closes a capture that ended with an Error.
  void clear() { graphs_.clear(); }

  void launch(Stream main) const;
  // Returns a log line about the last capture.
  std::string summary(const std::string& program) const;

  // The bytes that a launch sends to each group.
  std::map<GroupRef, int64_t> bytes_sent;

 private:
  int64_t nodes() const;

  std::vector<GpuGraph> graphs_;
  double seed_ = 0;
  bool refused_ = false;
};

}  // namespace tessera::runtime
