// The graphs of a step. A step with many nodes is split into several graphs, because instantiating
// one very large graph takes long. Above a limit of total nodes there are no graphs, and calls are
// enqueued one by one.
#include "runtime/step_graphs.h"

#include <fmt/format.h>

#include <numeric>

namespace tessera::runtime {

int64_t StepGraphs::nodes() const {
  return std::accumulate(graphs_.begin(), graphs_.end(), int64_t{0},
                         [](int64_t sum, const GpuGraph& g) { return sum + g.nodes(); });
}

void StepGraphs::begin(Stream main) {
  graphs_.clear();
  graphs_.emplace_back().begin(main);
}

bool StepGraphs::is_full() const { return graphs_.back().captured_nodes() >= limits.graph_nodes; }

bool StepGraphs::cut(Stream main) {
  graphs_.back().end(main);
  if (nodes() > limits.nodes) return false;
  graphs_.emplace_back().begin(main);
  return true;
}

void StepGraphs::end(Stream main, bool whole, double seed) {
  if (whole) graphs_.back().end(main);
  seed_ = seed;
  refused_ = !whole || nodes() > limits.nodes;
  if (refused_) graphs_.clear();
}

void StepGraphs::launch(Stream main) const {
  for (const GpuGraph& g : graphs_) g.launch(main);
}

std::string StepGraphs::summary(const std::string& program) const {
  if (refused_)
    return fmt::format(
        "graphs    none for {}: it has more than {} nodes, so its calls are enqueued one by one",
        program, limits.nodes);
  return fmt::format("graphs    {} nodes of {} in {} graph{}", nodes(), program, size(),
                     size() > 1 ? "s" : "");
}

}  // namespace tessera::runtime
