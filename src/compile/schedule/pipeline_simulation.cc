// Simulates a pipeline with free messages, which gives each action its start and finish. run()
// executes given lists: an action starts when its stage is free and its inputs are done.
// run_greedily() chooses the actions as well, in the order of zero-bubble schedules (Qi et al.
// 2024): a backward if one is ready, else a forward within the memory limit, else a weight part,
// which fills what would be a bubble.
// Durations: a forward is 1 (or the chunk's cost), a backward 2, and each of its two parts 1.
#include "compile/schedule/pipeline_simulation.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Simulation {
 public:
  explicit Simulation(const PipelineShape& shape)
      : shape_(shape),
        done_(3, std::vector<std::vector<int64_t>>(
                     shape.chunks(), std::vector<int64_t>(shape.microbatches, kNever))),
        next_(3, std::vector<int64_t>(shape.chunks(), 0)),
        actions_(static_cast<size_t>(shape.stages)) {
    for (int64_t s = 0; s < shape.stages; ++s) limit_.push_back(most_in_flight(shape, s));
  }

  void run(const std::vector<std::vector<Action>>& lists) {
    std::vector<size_t> at(lists.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < lists.size(); ++s)
        for (; at[s] < lists[s].size() && ready_at(lists[s][at[s]]) < kNever; ++at[s]) {
          take(s, lists[s][at[s]], std::max(free(s), ready_at(lists[s][at[s]])));
          moved = true;
        }
    }
    for (size_t s = 0; s < lists.size(); ++s)
      CHECK(at[s] == lists[s].size(), "stage {} waits for ever", s);
  }

  void run_greedily() {
    int64_t now = 0;
    // Event-driven: start what can start now, then advance to the next finish.
    while (!complete()) {
      for (size_t s = 0; s < actions_.size(); ++s)
        if (free(s) <= now) start_one(s, now);
      now = next_event(now);
      CHECK(now < kNever || complete(), "every stage waits");
    }
  }

  std::vector<std::vector<Action>> take_actions() { return std::move(actions_); }

 private:
  int64_t stage_of(int64_t chunk) const { return chunk % shape_.stages; }
  bool splits() const { return shape_.schedule == PipelineSchedule::kZeroBubble; }
  int64_t& done(ActionKind k, int64_t chunk, int64_t m) {
    return done_[static_cast<size_t>(k)][chunk][m];
  }
  int64_t& next(ActionKind k, int64_t chunk) { return next_[static_cast<size_t>(k)][chunk]; }
  int64_t free(size_t stage) const {
    return actions_[stage].empty() ? 0 : actions_[stage].back().finish;
  }

  // Returns when all inputs of the action are done; kNever if one has not started.
  int64_t ready_at(const Action& a) {
    if (a.kind == ActionKind::kForward)
      return a.chunk == 0 ? 0 : done(ActionKind::kForward, a.chunk - 1, a.microbatch);
    if (a.kind == ActionKind::kWeights) return done(ActionKind::kBackward, a.chunk, a.microbatch);
    const int64_t own = done(ActionKind::kForward, a.chunk, a.microbatch);
    if (a.chunk + 1 == shape_.chunks()) return own;
    return std::max(own, done(ActionKind::kBackward, a.chunk + 1, a.microbatch));
  }

  void take(size_t stage, Action a, int64_t now) {
    const int64_t forward = shape_.cost.empty() ? 1 : shape_.cost[a.chunk];
    a.start = now;
    a.finish = now + (a.kind == ActionKind::kBackward && !splits() ? 2 * forward : forward);
    done(a.kind, a.chunk, a.microbatch) = a.finish;
    ++next(a.kind, a.chunk);
    actions_[stage].push_back(a);
  }

  // Starts the next micro-batch of that kind if it is ready.
  bool start(size_t stage, ActionKind kind, int64_t now) {
    const auto chunk = static_cast<int64_t>(stage);
    const Action a = {kind, chunk, next(kind, chunk), 0, 0};
    if (a.microbatch == shape_.microbatches || ready_at(a) > now) return false;
    take(stage, a, now);
    return true;
  }

  // A micro-batch holds memory until its weights' part is done.
  int64_t in_flight(size_t stage) {
    const auto chunk = static_cast<int64_t>(stage);
    return next(ActionKind::kForward, chunk) - next(ActionKind::kWeights, chunk);
  }

  void start_one(size_t stage, int64_t now) {
    if (!shape_.backward) {
      start(stage, ActionKind::kForward, now);
      return;
    }
    if (start(stage, ActionKind::kBackward, now)) return;
    if (in_flight(stage) < limit_[stage] && start(stage, ActionKind::kForward, now)) return;
    start(stage, ActionKind::kWeights, now);
  }

  int64_t next_event(int64_t now) const {
    int64_t later = kNever;
    for (size_t s = 0; s < actions_.size(); ++s)
      if (free(s) > now) later = std::min(later, free(s));
    return later;
  }

  bool complete() const {
    const size_t kinds = shape_.backward ? (splits() ? 3 : 2) : 1;
    for (size_t k = 0; k < kinds; ++k)
      for (const int64_t n : next_[k])
        if (n < shape_.microbatches) return false;
    return true;
  }

  const PipelineShape& shape_;
  std::vector<std::vector<std::vector<int64_t>>> done_;  // kind, chunk, micro-batch: finish time
  std::vector<std::vector<int64_t>> next_;               // kind, chunk: first one not started
  std::vector<int64_t> limit_;
  std::vector<std::vector<Action>> actions_;
};

}  // namespace

std::vector<std::vector<Action>> run_lists(const PipelineShape& shape,
                                           const std::vector<std::vector<Action>>& lists) {
  Simulation simulation(shape);
  simulation.run(lists);
  return simulation.take_actions();
}

std::vector<std::vector<Action>> run_greedily(const PipelineShape& shape) {
  Simulation simulation(shape);
  simulation.run_greedily();
  return simulation.take_actions();
}

}  // namespace tessera
