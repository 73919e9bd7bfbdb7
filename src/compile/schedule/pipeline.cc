// The order of actions per stage for GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2019) and
// interleaved 1F1B (Narayanan et al. 2021); zero_bubble is simulated greedily
// (Simulation).
//
// 1F1B, 3 stages, 4 micro-batches: `ahead` forwards (warm-up), then one forward and one backward in
// turn, then the remaining backwards:
//
//   stage 0   F0 F1 F2 B0 F3 B1 B2 B3        ahead = 2
//   stage 1   F0 F1 B0 F2 B1 F3 B2 B3        ahead = 1
//   stage 2   F0 B0 F1 B1 F2 B2 F3 B3        ahead = 0
#include "compile/schedule/pipeline.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"

namespace tessera::compile {

// Returns the most micro-batches in flight on a stage. 1F1B: the number of stages from this one to
// the last, inclusive; then the first backward arrives. Interleaved: two more per later stage, plus
// S for each earlier chunk (Megatron-LM's warm-up).
int64_t most_in_flight(const PipelineShape& p, int64_t stage) {
  const int64_t all = p.microbatches * p.interleave, behind = p.stages - stage - 1;
  if (p.schedule == PipelineSchedule::kGpipe) return all;
  if (p.interleave == 1) return std::min(all, behind + 1);
  return std::min(all, 2 * behind + (p.interleave - 1) * p.stages + 1);
}

namespace {

// ---- Simulates a pipeline in which messages take no time, which gives the start and finish of
// each action. run() executes given lists: an action starts when its stage is free and its inputs
// are done. run_greedily() also chooses the actions, in the order of zero-bubble schedules (Qi et
// al. 2024): a backward if one is ready, else a forward within the memory limit, else a
// weight-gradient part, which fills a bubble. Durations: 1 (or the chunk's cost) for a
// forward, 2 for a backward, 1 for each of its two parts.

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Simulation {
 public:
  explicit Simulation(const PipelineShape& shape) : shape_(shape), actions_(shape.stages) {
    done_.fill(std::vector(shape.chunks(), std::vector<int64_t>(shape.microbatches, kNever)));
    next_.fill(std::vector<int64_t>(shape.chunks(), 0));
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
      CHECK(at[s] == lists[s].size(), "stage {} waits forever", s);
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
  int64_t& done(ActionKind k, int64_t chunk, int64_t m) { return done_[k][chunk][m]; }
  int64_t& next(ActionKind k, int64_t chunk) { return next_[k][chunk]; }
  int64_t free(int64_t stage) const {
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

  void take(int64_t stage, Action a, int64_t now) {
    const int64_t forward = shape_.cost.empty() ? 1 : shape_.cost[a.chunk];
    a.start = now;
    a.finish = now + (a.kind == ActionKind::kBackward && !splits() ? 2 * forward : forward);
    done(a.kind, a.chunk, a.microbatch) = a.finish;
    ++next(a.kind, a.chunk);
    actions_[stage].push_back(a);
  }

  // Starts the next micro-batch of that kind if it is ready.
  bool start(int64_t stage, ActionKind kind, int64_t now) {
    const Action a = {kind, stage, next(kind, stage), 0, 0};  // a stage has one chunk
    if (a.microbatch == shape_.microbatches || ready_at(a) > now) return false;
    take(stage, a, now);
    return true;
  }

  // Returns the number of micro-batches that hold memory: those whose weight-gradient part is not
  // done.
  int64_t in_flight(int64_t stage) {
    return next(ActionKind::kForward, stage) - next(ActionKind::kWeights, stage);
  }

  void start_one(int64_t stage, int64_t now) {
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
    for (const ActionKind k : Enumerators<ActionKind>()) {
      if (k == ActionKind::kBackward && !shape_.backward) break;
      if (k == ActionKind::kWeights && !splits()) break;
      for (const int64_t n : next_[k])
        if (n < shape_.microbatches) return false;
    }
    return true;
  }

  const PipelineShape& shape_;
  EnumArray<ActionKind, std::vector<std::vector<int64_t>>> done_;  // by chunk, micro-batch: finish
  EnumArray<ActionKind, std::vector<int64_t>> next_;               // by chunk: first not started
  std::vector<int64_t> limit_;
  std::vector<std::vector<Action>> actions_;
};

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

// Returns `ahead` forwards, then a forward and a backward in turn, then the remaining backwards.
std::vector<Action> alternate(const std::vector<Action>& forward,
                              const std::vector<Action>& backward, int64_t ahead) {
  std::vector<Action> list(forward.begin(), forward.begin() + ahead);
  for (int64_t f = ahead; f < std::ssize(forward); ++f) {
    list.push_back(forward[f]);
    list.push_back(backward[f - ahead]);
  }
  list.insert(list.end(), backward.end() - ahead, backward.end());
  return list;
}

// Returns the forwards (or backwards) of a stage: groups of S micro-batches pass through its V
// chunks, the first group through chunk 0, then chunk 1, and so on.
std::vector<Action> in_order(const PipelineShape& p, int64_t stage, ActionKind kind) {
  std::vector<Action> list;
  const int64_t S = p.stages, V = p.interleave;
  for (int64_t k = 0; k < p.microbatches * V; ++k) {
    int64_t v = k % (S * V) / S;
    if (kind == ActionKind::kBackward) v = V - 1 - v;
    list.push_back({kind, v * S + stage, k / (S * V) * S + k % S, 0, 0});
  }
  return list;
}

// Interleaved lists are made for a multiple of S micro-batches. The surplus ones are then removed,
// which delays nothing and keeps every order.
std::vector<std::vector<Action>> lists(const PipelineShape& shape) {
  PipelineShape p = shape;
  if (p.interleave > 1) p.microbatches = (p.microbatches + p.stages - 1) / p.stages * p.stages;
  std::vector<std::vector<Action>> all;
  for (int64_t s = 0; s < p.stages; ++s) {
    std::vector<Action> list = in_order(p, s, ActionKind::kForward);
    if (p.backward) {
      const int64_t ahead = p.schedule == PipelineSchedule::kGpipe ? p.microbatches * p.interleave
                                                                   : most_in_flight(p, s) - 1;
      list = alternate(list, in_order(p, s, ActionKind::kBackward), ahead);
    }
    std::erase_if(list, [&](const Action& a) { return a.microbatch >= shape.microbatches; });
    all.push_back(std::move(list));
  }
  return all;
}

}  // namespace

std::vector<std::vector<Action>> pipeline_actions(const PipelineShape& shape) {
  CHECK(shape.cost.empty() || std::ssize(shape.cost) == shape.chunks(), "{} costs of {} chunks",
        shape.cost.size(), shape.chunks());
  CHECK(shape.schedule != PipelineSchedule::kZeroBubble || shape.interleave == 1,
        "zero_bubble with {} chunks per stage", shape.interleave);
  return shape.schedule == PipelineSchedule::kZeroBubble ? run_greedily(shape)
                                                         : run_lists(shape, lists(shape));
}

}  // namespace tessera::compile
