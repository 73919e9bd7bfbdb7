#include "plan/search_view.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera {

bool CandidateView::reduces_each() const {
  const Layout& l = candidate->layout;
  return divides(2) || (divides(1) && l.zero_reduce == ZeroReduce::kEach);
}

int64_t CandidateView::layers_on(int64_t stage) const {
  int64_t n = 0;
  for (int64_t c = stage; c < chunks(); c += stages()) n += layers_of(c);
  return n;
}

int64_t CandidateView::forward(int64_t chunk) const {
  const CallNs& n = calls_on(chunk % stages());
  return layers_of(chunk) * n.layer + (chunk == 0 ? n.embed : 0);
}

int64_t CandidateView::backward(int64_t chunk, bool first) const {
  const CallNs& n = calls_on(chunk % stages());
  const bool fresh = first || reduces_each();
  return layers_of(chunk) * (n.again + n.backward[fresh]) +
         (chunk + 1 == chunks() ? n.head[fresh] : 0) + (chunk == 0 ? n.embed_backward[fresh] : 0);
}

int64_t CandidateView::ahead(int64_t chunk) const {
  return layers_of(chunk) > 0 ? calls_on(chunk % stages()).again : 0;
}

int64_t CandidateView::weights(int64_t chunk, bool first) const {
  return layers_of(chunk) * calls_on(chunk % stages()).weights[first || reduces_each()];
}

int64_t CandidateView::gathered(int64_t chunk) const {
  if (!divides(1)) return begin;
  const CallNs& n = calls_on(chunk % stages());
  if (chunk == 0) return begin + n.gather_embed;
  return begin + (layers_of(chunk) > 0 ? n.gather_layer : 0);
}

bool CandidateView::uses(const GroupCost& g, int64_t stage) const { return copies(g, stage) > 0; }

int64_t CandidateView::copies(const GroupCost& g, int64_t stage) const {
  if (g.only_layer()) return layers_on(stage);
  const bool here = (g.embed && stage == 0) || (g.head && stage + 1 == stages());
  return here ? 1 : 0;
}

int64_t CandidateView::update(int64_t stage) const {
  int64_t sum = 0;
  for (const GroupCost& g : blocks->groups)
    sum += copies(g, stage) * (g.update_ns / (divides(1) ? shards : 1));
  return sum;
}

// Each rank sums the squares of its own part, with every ZeRO stage.
int64_t CandidateView::squares(int64_t stage) const {
  int64_t sum = 0;
  for (const GroupCost& g : blocks->groups) sum += copies(g, stage) * (g.squares_ns / shards);
  return sum;
}

int64_t CandidateView::tail(int64_t stage, bool after_weights) const {
  const CallNs& n = calls_on(stage);
  const int64_t layers_here = layers_of(stage);
  int64_t reduced = 0;
  if (shards > 1 && layers_here > 0) {
    reduced = n.reduce_layer;
    // The reductions of all layers begin with that of the first that is over.
    if (!after_weights) {
      const int64_t hidden = (layers_here - 1) * (n.again + std::max(n.backward[0], n.backward[1]));
      reduced = std::max(reduced, layers_here * n.reduce_layer - hidden);
    }
  }
  if (stage == 0 && shards > 1 && !after_weights)
    reduced = std::max<int64_t>(reduced - std::max(n.embed_backward[0], n.embed_backward[1]), 0) +
              n.reduce_embed;
  return std::max(reduced, squares(stage)) + update(stage);
}

int64_t CandidateView::moving(int64_t stage) const {
  if (!reduces_each()) return 0;
  const CallNs& n = calls_on(stage);
  int64_t each = layers_on(stage) * n.reduce_layer;
  // A gather for each use; neighbours share one, at most at both ends of a chunk's calls.
  if (divides(3))
    for (int64_t c = stage; c < chunks(); c += stages())
      each += std::max<int64_t>(2 * layers_of(c) - 2, 0) * n.gather_layer;
  return microbatches * each;
}

int64_t CandidateView::step_by_formula() const {
  const int64_t m = microbatches;
  int64_t ready = 0, end_of_first = 0, step = 0, after = 0;
  for (int64_t s = 0; s < stages(); ++s) {
    ready = std::max(ready, gathered(s));
    int64_t work = 0, behind = 0;
    for (int64_t c = s; c < chunks(); c += stages()) {
      work += m * forward(c) + backward(c, true) + (m - 1) * backward(c, false);
      behind += weights(c, true) + (m - 1) * weights(c, false);
    }
    end_of_first = std::max(end_of_first, ready + work + after);
    if (behind > 0) step = std::max(step, ready + work + behind + tail(s, true));
    // Reductions wait for what they reduce; gathers of ZeRO 3 may run before.
    const int64_t moves = divides(3) ? begin : ready;
    step = std::max({step, ready + work + tail(s, behind > 0), moves + moving(s) + update(s)});
    const auto at = static_cast<size_t>(s);
    ready += forward(s) + next[at];
    after += std::min(backward(s, true), backward(s, false)) - ahead(s) +
             (s + 1 < stages() ? back[at + 1] : 0);
  }
  const bool divided = weights(0, false) > 0;
  return std::max(step, end_of_first + tail(0, divided));
}

int64_t CandidateView::gradient_bytes(const GroupCost& g) const {
  const int64_t part = reduces_each() ? shards : 1;
  return g.elements * g.sum_bytes / part;
}

int64_t CandidateView::state_bytes(int64_t stage) const {
  int64_t sum = 0;
  for (const GroupCost& g : blocks->groups)
    sum += copies(g, stage) * (g.elements * g.weight_bytes / (divides(3) ? shards : 1) +
                               g.elements * g.kept_bytes / (divides(1) ? shards : 1));
  return sum;
}

int64_t CandidateView::saved_bytes(int64_t chunk) const {
  return layers_of(chunk) * (blocks->input_bytes + (blocks->light ? 0 : blocks->saved_bytes));
}

int64_t CandidateView::kept_bytes(int64_t chunk) const {
  if (weights(chunk, false) == 0) return 0;
  return layers_of(chunk) * (blocks->light ? blocks->input_bytes : blocks->kept_bytes);
}

// At the call of the head, of the chunk's last layer, or of the one below it, where gradients of
// the last are still being reduced: place() leaves them one call of computation for that.
int64_t CandidateView::backward_bytes(int64_t chunk, bool begun) const {
  const int64_t head = chunk + 1 == chunks() ? blocks->head.scratch_bytes : 0;
  if (layers_of(chunk) == 0) return head;
  const int64_t layer = blocks->layer_backward.scratch_bytes + blocks->stream_gradient_bytes +
                        (blocks->light ? blocks->saved_bytes : 0);
  if (weights(chunk, false) > 0) return std::max(head, layer);
  int64_t gradients = 0;
  for (const GroupCost& g : blocks->groups)
    if (g.only_layer()) gradients += g.elements * g.sum_bytes;
  const int64_t last = layer + (reduces_each() || !begun ? gradients : 0);
  // What is done again stands between two layers.
  const bool both = reduces_each() && layers_of(chunk) > 1 && !blocks->light;
  const int64_t below = both ? layer + 2 * gradients - saved_bytes(chunk) / layers_of(chunk) : 0;
  return std::max({head, last, below});
}

int64_t CandidateView::bytes_by_formula() const {
  PipelineShape shape;
  shape.schedule = candidate->layout.pipeline_schedule;
  shape.stages = stages();
  shape.interleave = candidate->layout.interleave;
  shape.microbatches = microbatches;
  // Greedy lists may have fewer in flight where chunks differ.
  const bool greedy = shape.schedule == PipelineSchedule::kZeroBubble;
  int64_t most = 0;
  for (int64_t s = 0; s < stages(); ++s) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t c = s; c < chunks(); c += stages()) least = std::min(least, saved_bytes(c));
    int64_t gradients = 0;
    for (const GroupCost& g : blocks->groups)
      if (uses(g, s)) gradients += copies(g, s) * gradient_bytes(g);
    const int64_t in_flight = greedy ? 1 : most_in_flight(shape, s);
    // In a steady state the most are in flight again after gradients are there.
    const bool steady = candidate->layout.interleave == 1 && microbatches > in_flight &&
                        shape.schedule == PipelineSchedule::k1F1B;
    const int64_t transient =
        steady ? in_flight * least + gradients : std::max(in_flight * least, gradients);
    most = std::max(most, state_bytes(s) + transient);
  }
  return most;
}

int64_t CandidateView::bytes_of(const std::vector<std::vector<Action>>& actions) const {
  int64_t most = 0;
  for (int64_t s = 0; s < stages(); ++s) {
    int64_t alive = state_bytes(s), peak = alive;
    std::vector<bool> begun(static_cast<size_t>(chunks()), false);
    for (const Action& a : actions[static_cast<size_t>(s)]) {
      const int64_t pending =
          kept_bytes(a.chunk) == 0 ? 0 : layers_of(a.chunk) * blocks->pending_bytes;
      if (a.kind == ActionKind::kForward) alive += saved_bytes(a.chunk);
      if (a.kind == ActionKind::kBackward) {
        peak = std::max(peak, alive + backward_bytes(a.chunk, begun[size_t(a.chunk)]));
        alive += kept_bytes(a.chunk) + pending - saved_bytes(a.chunk);
      }
      if (a.kind == ActionKind::kWeights) alive -= kept_bytes(a.chunk) + pending;
      peak = std::max(peak, alive);
      // From the first call that adds to the update.
      const bool divided = weights(a.chunk, false) > 0;
      const bool adds = a.kind == (divided ? ActionKind::kWeights : ActionKind::kBackward);
      if (!adds || begun[size_t(a.chunk)]) continue;
      begun[size_t(a.chunk)] = true;
      for (const GroupCost& g : blocks->groups)
        if (g.only_layer()) alive += layers_of(a.chunk) * gradient_bytes(g);
    }
    most = std::max(most, peak);
  }
  return most;
}

}  // namespace tessera
