// The tighter of the two lower bounds of the step time: a longest-path computation over all actions
// of all stages and the messages between them. A stage runs its actions in order; an action whose
// input has not arrived yet suspends its stage, and the outer loop repeats until no stage can
// continue. Each action runs once, so the cost is linear in actions and messages.
#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "plan/search_view.h"

namespace tessera::plan {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

class ActionWalk {
 public:
  using Lists = std::vector<std::vector<compile::Action>>;
  ActionWalk(const CandidateView& view, const Lists& lists)
      : view_(view),
        lists_(lists),
        free_(lists.size()),
        computed_(lists.size()),
        at_(lists.size(), 0) {
    begun_.fill(std::vector<bool>(view.chunks(), false));
    const int64_t actions = view.chunks() * view.microbatches;
    arrived_.assign(2, std::vector<int64_t>(actions, kNever));
    sent_.assign(2, std::vector<int64_t>(lists.size(), 0));
    for (int64_t s = 0; s < view.stages(); ++s) free_[size_t(s)] = view.gathered(s);
    for (int64_t c = 0; c < view.chunks(); ++c) {
      forward_.push_back(view.forward(c));
      ahead_.push_back(view.ahead(c));
      for (const bool first : {false, true}) {
        backward_[first].push_back(view.backward(c, first));
        weights_[first].push_back(view.weights(c, first));
      }
    }
  }

  int64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < lists_.size(); ++s)
        for (; at_[s] < lists_[s].size(); ++at_[s], moved = true)
          if (!take(s, lists_[s][at_[s]])) break;
    }
    int64_t step = 0;
    for (size_t s = 0; s < lists_.size(); ++s) {
      CHECK(at_[s] == lists_[s].size(), "stage {} is deadlocked", s);
      const auto stage = static_cast<int64_t>(s);
      step = std::max({step, computed_[s] + view_.tail(stage, view_.weights(stage, false) > 0),
                       free_[s] + view_.squares(stage) + view_.update(stage)});
    }
    return step;
  }

 private:
  int64_t slot(int64_t chunk, int64_t m) const { return chunk * view_.microbatches + m; }

  // The first call of a kind on a chunk writes the gradient sums that later calls add to, so it may
  // be shorter.
  int64_t duration(const compile::Action& a) {
    std::vector<bool>& begun = begun_[a.kind];
    const int64_t c = a.chunk;
    const bool first = !begun[c];
    begun[c] = true;
    if (a.kind == compile::ActionKind::kForward) return forward_[c];
    return a.kind == compile::ActionKind::kBackward ? backward_[first][c] : weights_[first][c];
  }

  // Returns the arrival time of the action's input; kNever if it has not been sent yet.
  int64_t arrival(const compile::Action& a) const {
    const size_t at = slot(a.chunk, a.microbatch);
    const bool last = a.chunk + 1 == view_.chunks();
    if (a.kind == compile::ActionKind::kBackward && !last)
      return view_.goes_back(a.chunk) ? arrived_[1][at] : 0;
    // If the last chunk has no layers, only the head reads the forward's message.
    const bool reads = a.kind == compile::ActionKind::kForward ||
                       (a.kind == compile::ActionKind::kBackward && last);
    return reads && a.chunk > 0 ? arrived_[0][at] : 0;
  }

  bool take(size_t s, const compile::Action& a) {
    const bool backward = a.kind == compile::ActionKind::kBackward;
    const int64_t came = arrival(a);
    if (came == kNever) return false;
    const int64_t ns = duration(a), ahead = backward ? ahead_[a.chunk] : 0;
    // An action without calls of its own does not occupy the compute queue.
    int64_t done = came;
    if (ns > 0) done = computed_[s] = free_[s] = std::max(came, free_[s] + ahead) + ns - ahead;
    if (a.kind == compile::ActionKind::kForward && a.chunk + 1 < view_.chunks())
      send(s, 0, slot(a.chunk + 1, a.microbatch), done);
    if (backward && a.chunk > 0 && view_.goes_back(a.chunk - 1))
      send(s, 1, slot(a.chunk - 1, a.microbatch), done);
    return true;
  }

  // Sends a message. Messages of one direction leave a stage one after another.
  void send(size_t s, size_t direction, size_t to, int64_t done) {
    if (view_.stages() == 1) {
      arrived_[direction][to] = done;
      return;
    }
    int64_t& line = sent_[direction][s];
    line = std::max(line, done) + (direction == 0 ? view_.next : view_.back)[s];
    if (view_.sender_waits && done == free_[s]) free_[s] = line;
    arrived_[direction][to] = line;
  }

  const CandidateView& view_;
  const Lists& lists_;
  std::vector<int64_t> free_;      // by stage: when its compute queue is free
  std::vector<int64_t> computed_;  // by stage: when its last action ended, before its sends
  std::vector<size_t> at_;
  EnumArray<compile::ActionKind, std::vector<bool>> begun_;  // by chunk
  std::vector<std::vector<int64_t>> arrived_;                // by direction, chunk and micro-batch
  std::vector<std::vector<int64_t>> sent_;                   // by direction and stage
  std::vector<int64_t> forward_, ahead_;
  std::array<std::vector<int64_t>, 2> backward_, weights_;
};

int64_t CandidateView::step_of(const std::vector<std::vector<compile::Action>>& actions) const {
  return ActionWalk(*this, actions).run();
}

}  // namespace tessera::plan
