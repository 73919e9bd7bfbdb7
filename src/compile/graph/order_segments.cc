// List scheduling of the ops of a layer on its queues with several priority functions; the order
// with the shortest layer time is kept.
//
// Whenever the compute queue is free, it runs the ready op with the highest priority: the length of
// the longest path of ops after it, minus a head start that grows with the index of its chunk.
// Without head starts the chunks stay in step, and all of them wait for their collectives at the
// same time. With head starts each chunk is computed during the collectives of another one; head
// starts that are too large delay a chunk's collectives. Weight gradients, which no op in the layer
// reads, fill the remaining idle time.
#include <algorithm>
#include <array>

#include "compile/graph/graph_passes.h"
#include "ir/chunk.h"
#include "ir/op_order.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

// FLOPs that a device computes in the time in which it moves one byte of its memory, or sends one
// byte to another rank: the magnitude of an A100 or H100 with NVLink (data sheets). Only the order
// of ops depends on it. Links differ, so an order is judged by its time with a faster link, this
// one, and a slower one.
constexpr double kFlopsPerMovedByte = 150;
constexpr double kFlopsPerSentByte = 900;
constexpr std::array<double, 3> kLinkFactors = {0.5, 1, 2};

// Head starts of a chunk relative to the next one, as shares of the layer's longest path.
constexpr std::array<double, 6> kHeadStarts = {0, 0.05, 0.1, 0.2, 0.4, 1};

// The ops of a layer with their dependencies and costs.
struct OpGraph {
  OpGraph(const std::vector<Op>& list, ValueSpan values, ValueSpan local)
      : ops(list), after(list.size()), before(list.size()) {
    std::vector<std::vector<OperandUse>> touches;
    for (const Op& op : ops) {
      touches.push_back(uses_of(op, values));
      const Cost cost = cost_of(op, local);
      flops.push_back(communicates(op)
                          ? kFlopsPerSentByte * cost.bytes
                          : std::max(cost.flops.hardware, kFlopsPerMovedByte * cost.moved_bytes));
    }
    for (size_t i = 0; i < ops.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (depends(touches[i], touches[j], values) || is_between_visits(ops[i], ops[j])) {
          after[j].push_back(i);
          before[i].push_back(j);
        }
  }

  // Returns the cost of an op in FLOPs, if communication is slower by the factor `link`.
  double cost(size_t i, double link) const {
    return communicates(ops[i]) ? link * flops[i] : flops[i];
  }

  // Returns the time of the layer in the given order.
  double time_of(const std::vector<size_t>& order, double link) const {
    EnumArray<Queue, double> clocks;
    std::vector<double> over(ops.size());
    for (const size_t i : order) {
      double& clock = clocks[ops[i].queue];
      for (const size_t j : before[i]) clock = std::max(clock, over[j]);
      over[i] = clock += cost(i, link);
    }
    return *std::max_element(clocks.begin(), clocks.end());
  }

  const std::vector<Op>& ops;
  std::vector<std::vector<size_t>> after,
      before;  // per op: its successors and predecessors
  std::vector<double> flops;

 private:
  // A block of keys and values is sent on while attention to it is computed, and not before that of
  // earlier blocks. So a rank has few blocks at a time.
  static bool is_between_visits(const Op& op, const Op& before) {
    return op.is<Rotate>() && (before.is<Attention>() || before.is<AttentionGrad>());
  }
  static bool depends(const std::vector<OperandUse>& a, const std::vector<OperandUse>& b,
                      ValueSpan values) {
    return std::any_of(a.begin(), a.end(), [&](const OperandUse& x) {
      return std::any_of(b.begin(), b.end(),
                         [&](const OperandUse& y) { return in_conflict(x, y, values); });
    });
  }
};

class ListScheduler {
 public:
  ListScheduler(const OpGraph& graph, double link, double head_start)
      : graph_(graph), link_(link), ready_at_(graph.ops.size()) {
    const size_t n = graph.ops.size();
    std::vector<double> path(n);
    double longest = 0;
    for (size_t i = n; i-- > 0;) {
      path[i] = graph.cost(i, link);
      for (const size_t next : graph.after[i])
        path[i] = std::max(path[i], graph.cost(i, link) + path[next]);
      longest = std::max(longest, path[i]);
      left_.push_back(0);
    }
    for (size_t i = 0; i < n; ++i) {
      const double chunk = graph.ops[i].chunk.index;
      priority_.push_back(path[i] - head_start * longest * chunk);
      left_[i] = graph.before[i].size();
      if (left_[i] == 0) ready_.push_back(i);
    }
  }

  std::vector<size_t> run() {
    std::vector<size_t> order;
    while (!ready_.empty()) {
      const size_t i = next();
      ready_.erase(std::find(ready_.begin(), ready_.end(), i));
      double& clock = clock_of(i);
      clock = start_of(i) + graph_.cost(i, link_);
      for (const size_t j : graph_.after[i]) {
        ready_at_[j] = std::max(ready_at_[j], clock);
        if (--left_[j] == 0) ready_.push_back(j);
      }
      order.push_back(i);
    }
    return order;
  }

 private:
  double& clock_of(size_t i) { return clocks_[graph_.ops[i].queue]; }
  double start_of(size_t i) { return std::max(clock_of(i), ready_at_[i]); }

  // Collectives are issued as soon as their inputs are. Of the other ops, the one that can start
  // first is next, then the one with the highest priority, then the first in the list. An op that
  // no other op waits for comes last, because it can fill a later wait.
  size_t next() {
    const auto better = [&](size_t a, size_t b) {
      const bool inner_a = is_inner(graph_.ops[a].queue), inner_b = is_inner(graph_.ops[b].queue);
      if (inner_a != inner_b) return inner_a;
      if (start_of(a) != start_of(b)) return start_of(a) < start_of(b);
      const bool last_a = graph_.after[a].empty(), last_b = graph_.after[b].empty();
      if (last_a != last_b) return last_b;
      if (priority_[a] != priority_[b]) return priority_[a] > priority_[b];
      return a < b;
    };
    return *std::min_element(ready_.begin(), ready_.end(), better);
  }

  const OpGraph& graph_;
  double link_;
  std::vector<size_t> left_;  // number of ops that each op still waits for
  std::vector<double> priority_, ready_at_;
  std::vector<size_t> ready_;
  EnumArray<Queue, double> clocks_;
};

// Returns the product of the times over all links, so that no link outweighs another.
double judged(const OpGraph& graph, const std::vector<size_t>& order) {
  double product = 1;
  for (const double link : kLinkFactors) product *= graph.time_of(order, link);
  return product;
}

std::vector<Op> ordered(const std::vector<Op>& ops, ValueSpan values, ValueSpan local) {
  const OpGraph graph(ops, values, local);
  std::vector<size_t> best;
  double least = 0;
  for (const double link : kLinkFactors)
    for (const double head_start : kHeadStarts) {
      std::vector<size_t> order = ListScheduler(graph, link, head_start).run();
      const double time = judged(graph, order);
      if (best.empty() || time < least) {
        least = time;
        best = std::move(order);
      }
    }
  std::vector<Op> result;
  for (const size_t i : best) result.push_back(ops[i]);
  return result;
}

}  // namespace

void order_segments(Graph& graph) {
  const ValueVector local = local_values(graph.values);
  for (Block& b : graph.blocks)
    for (std::vector<Op>* const ops : {&b.forward, &b.backward})
      if (uses_inner_queues(*ops)) *ops = ordered(*ops, graph.values, local);
}

}  // namespace tessera::compile
