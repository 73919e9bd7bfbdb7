// List scheduling of the ops of a layer over its queues: whenever the compute queue is free, it
// takes the op that could start at once and has the longest path of ops after it. Gradients of
// weights, which nothing in the layer reads, so fill the waits for collectives.
#include <algorithm>
#include <array>

#include "compile/graph/graph_passes.h"
#include "ir/chunk.h"
#include "ir/op_order.h"
#include "ir/rule.h"

namespace tessera {
namespace {

// What a device computes while it moves a byte of its memory, or sends one to another rank: the
// order of an A100 or H100 with NVLink (data sheets). Only the order of ops depends on it.
constexpr double kFlopsPerMovedByte = 150;
constexpr double kFlopsPerSentByte = 900;

double cost_in_flops(const Op& op, ValueSpan local) {
  const Cost cost = cost_of(op, local);
  if (communicates(op)) return kFlopsPerSentByte * cost.bytes;
  return std::max(cost.flops.hardware, kFlopsPerMovedByte * cost.moved_bytes);
}

class ListScheduler {
 public:
  ListScheduler(const std::vector<Op>& ops, ValueSpan values, ValueSpan local)
      : ops_(ops), after_(ops.size()), left_(ops.size()) {
    std::vector<std::vector<OperandUse>> touches;
    for (const Op& op : ops) {
      touches.push_back(uses_of(op, values));
      cost_.push_back(cost_in_flops(op, local));
    }
    for (size_t i = 0; i < ops.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (depends(touches[i], touches[j], values)) {
          after_[j].push_back(i);
          ++left_[i];
        }
    path_ = cost_;
    for (size_t i = ops.size(); i-- > 0;)
      for (const size_t next : after_[i]) path_[i] = std::max(path_[i], cost_[i] + path_[next]);
    ready_at_.resize(ops.size());
    for (size_t i = 0; i < ops.size(); ++i)
      if (left_[i] == 0) ready_.push_back(i);
  }

  std::vector<Op> run() {
    std::vector<Op> order;
    while (!ready_.empty()) {
      const size_t i = next();
      ready_.erase(std::find(ready_.begin(), ready_.end(), i));
      double& clock = clock_of(i);
      clock = start_of(i) + cost_[i];
      for (const size_t j : after_[i]) {
        ready_at_[j] = std::max(ready_at_[j], clock);
        if (--left_[j] == 0) ready_.push_back(j);
      }
      order.push_back(ops_[i]);
    }
    return order;
  }

 private:
  static bool depends(const std::vector<OperandUse>& a, const std::vector<OperandUse>& b,
                      ValueSpan values) {
    return std::any_of(a.begin(), a.end(), [&](const OperandUse& x) {
      return std::any_of(b.begin(), b.end(),
                         [&](const OperandUse& y) { return in_conflict(x, y, values); });
    });
  }

  double& clock_of(size_t i) { return clocks_[static_cast<size_t>(ops_[i].queue)]; }
  double start_of(size_t i) { return std::max(clock_of(i), ready_at_[i]); }

  // Collectives are issued as soon as what they need is; of other ops the one that starts first,
  // and of several the one with the longest path. Ties: the order of the list.
  size_t next() {
    const auto better = [&](size_t a, size_t b) {
      const bool inner_a = is_inner(ops_[a].queue), inner_b = is_inner(ops_[b].queue);
      if (inner_a != inner_b) return inner_a;
      if (start_of(a) != start_of(b)) return start_of(a) < start_of(b);
      if (path_[a] != path_[b]) return path_[a] > path_[b];
      return a < b;
    };
    return *std::min_element(ready_.begin(), ready_.end(), better);
  }

  const std::vector<Op>& ops_;
  std::vector<std::vector<size_t>> after_;  // the later ops that depend on each
  std::vector<size_t> left_;                // how many ops each still waits for
  std::vector<double> cost_, path_, ready_at_;
  std::vector<size_t> ready_;
  std::array<double, kQueues> clocks_{};
};

}  // namespace

void order_segments(Graph& graph) {
  const ValueVector local = local_values(graph.values);
  for (Block& b : graph.blocks)
    for (std::vector<Op>* const ops : {&b.forward, &b.backward})
      if (uses_inner_queues(*ops)) *ops = ListScheduler(*ops, graph.values, local).run();
}

}  // namespace tessera
