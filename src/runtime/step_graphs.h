// A run on a GPU as graphs, one after another, each of a piece of the schedule.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/gpu.h"

namespace tessera::runtime {

struct GraphLimits {
  // Nodes of one graph: more take seconds to instantiate at once.
  int64_t graph_nodes = 16'384;
  // Nodes of all graphs of a program, which take memory of the device (about 4 KiB each: estimated,
  // part of kGpuOutsideBytes). A run of more stays call by call.
  int64_t nodes = 65'536;
};

class StepGraphs {
 public:
  GraphLimits limits;

  bool empty() const { return graphs_.empty(); }
  int64_t size() const { return std::ssize(graphs_); }
  // The program has too many nodes for graphs.
  bool refused() const { return refused_; }
  // Whether there are graphs for this seed, which is in the keys of roundings.
  bool is_for(double seed) const { return !empty() && seed == seed_; }

  // A capture: begin(), then cut() whenever is_full(), then end().
  void begin(Stream main);
  bool is_full() const;
  // Ends a graph and begins the next; the caller joins its streams before and forks them after.
  // Returns false if there are too many nodes.
  bool cut(Stream main);
  // `whole`: cut() never returned false.
  void end(Stream main, bool whole, double seed);
  // Drops all graphs, and closes a capture that an Error ended.
  void clear() { graphs_.clear(); }

  void launch(Stream main) const;
  // A line for the log about the last capture.
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
