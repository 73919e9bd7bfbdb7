// The quantities of search_bound.h for one candidate: durations of chunks, sums of stages, and the
// bounds by formula. Every function returns a lower bound; where cases differ, it uses the smaller
// value.
#include "plan/search_view.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "compile/schedule/pipeline.h"

namespace tessera::plan {

bool CandidateView::reduces_each() const {
  const compile::Layout& l = candidate->layout;
  return divides(2) || (divides(1) && l.zero_reduce == compile::ZeroReduce::kEach);
}

int64_t CandidateView::layers_on(int64_t stage, size_t stack) const {
  int64_t n = 0;
  for (int64_t c = stage; c < chunks(); c += stages()) n += layers_of(c, stack);
  return n;
}

int64_t CandidateView::forward(int64_t chunk) const {
  const CallNs& n = calls_on(chunk % stages());
  return over_layers(chunk, [&](size_t k) { return n.stacks[k].layer; }) +
         (chunk == 0 ? n.embed : 0) + (has_bridge(chunk) ? n.bridge : 0);
}

int64_t CandidateView::backward(int64_t chunk, bool first) const {
  const CallNs& n = calls_on(chunk % stages());
  const bool fresh = first || reduces_each();
  const auto layer = [&](size_t k) { return n.stacks[k].again + n.stacks[k].backward[fresh]; };
  // In every micro-batch, the first decoder layer to run writes the gradient sum of the encoder
  // output.
  const size_t last = last_stack(chunk);
  const bool begins = layers_of(chunk) > 0 && blocks->stacks[last].gives_memory;
  const CallNs::Both& decoder = n.stacks[last].backward;
  return over_layers(chunk, layer) - (begins ? decoder[fresh] - decoder[true] : 0) +
         (chunk + 1 == chunks() ? n.head[fresh] : 0) + (chunk == 0 ? n.embed_backward[fresh] : 0) +
         (has_bridge(chunk) ? n.bridge_backward[fresh] : 0);
}

int64_t CandidateView::ahead(int64_t chunk) const {
  return layers_of(chunk) > 0 ? calls_on(chunk % stages()).stacks[last_stack(chunk)].again : 0;
}

int64_t CandidateView::weights(int64_t chunk, bool first) const {
  const CallNs& n = calls_on(chunk % stages());
  const bool fresh = first || reduces_each();
  return over_layers(chunk, [&](size_t k) { return n.stacks[k].weights[fresh]; });
}

bool CandidateView::goes_back(int64_t chunk) const {
  for (int64_t c = 0; c <= chunk; ++c)
    if (layers_of(c) > 0 || (c == 0 && blocks->embeds_backward)) return true;
  return false;
}

int64_t CandidateView::gathered(int64_t chunk) const {
  if (!divides(1)) return begin;
  const CallNs& n = calls_on(chunk % stages());
  if (chunk == 0) return begin + n.gather_embed;
  // The bridge before a decoder's first layer has other weights, and its gathers are not counted.
  if (layers_of(chunk) == 0 || of(chunk).begins_with_bridge) return begin;
  return begin + n.stacks[first_stack(chunk)].gather;
}

bool CandidateView::uses(const GroupCost& g, int64_t stage) const { return copies(g, stage) > 0; }

int64_t CandidateView::copies(const GroupCost& g, int64_t stage) const {
  if (g.stack != kNone) return layers_on(stage, g.stack);
  const bool here = (g.embed && stage == 0) || (g.head && stage + 1 == stages());
  return here ? 1 : 0;
}

int64_t CandidateView::update(int64_t stage) const {
  int64_t sum = 0;
  for (const GroupCost& g : blocks->groups)
    sum += copies(g, stage) * (g.update_ns / (divides(1) ? shards : 1) + g.orthogonalize_ns);
  return sum;
}

// Each rank sums the squares of its own shard, whatever the ZeRO stage.
int64_t CandidateView::squares(int64_t stage) const {
  int64_t sum = 0;
  for (const GroupCost& g : blocks->groups) sum += copies(g, stage) * (g.squares_ns / shards);
  return sum;
}

// T_s of search_bound.h: the reductions that outlast the last backward, or the squares, then
// updates.
int64_t CandidateView::tail(int64_t stage, bool after_weights) const {
  const CallNs& n = calls_on(stage);
  int64_t reduced = 0;
  if (shards > 1 && layers_of(stage) > 0) {
    reduced = n.stacks[first_stack(stage)].reduce;
    // All layers share one queue of reductions, which starts after the first of these backwards
    // ends.
    if (!after_weights) {
      const auto longest = [&](size_t k) { return n.stacks[k].longest_backward(); };
      const int64_t hidden =
          over_layers(stage, longest) - longest(last_stack(stage)) +
          (has_bridge(stage) ? std::max(n.bridge_backward[0], n.bridge_backward[1]) : 0);
      const int64_t all = over_layers(stage, [&](size_t k) { return n.stacks[k].reduce; });
      reduced = std::max(reduced, all - hidden);
    }
  }
  // The embedding's backward follows that of the stage's first layer and may hide its reduction.
  if (stage == 0 && shards > 1 && !after_weights)
    reduced = std::max<int64_t>(reduced - std::max(n.embed_backward[0], n.embed_backward[1]), 0) +
              n.reduce_embed;
  return std::max(reduced, squares(stage)) + update(stage);
}

// X_s of search_bound.h.
int64_t CandidateView::moving(int64_t stage) const {
  if (!reduces_each()) return 0;
  const CallNs& n = calls_on(stage);
  int64_t each = 0;
  for (int64_t c = stage; c < chunks(); c += stages()) {
    each += over_layers(c, [&](size_t k) { return n.stacks[k].reduce; });
    if (!divides(3) || layers_of(c) == 0) continue;
    // One gather per use. Neighboring calls of a layer share one, at most at both ends of a chunk.
    const auto gather = [&](size_t k) { return n.stacks[k].gather; };
    const auto both = [&](size_t k) { return n.stacks[k].gather + n.stacks[k].gather_back; };
    const int64_t shared = 2 * std::max(gather(first_stack(c)), gather(last_stack(c)));
    each += std::max<int64_t>(over_layers(c, both) - shared, 0);
  }
  return microbatches * each;
}

// Steps 1 to 5 of search_bound.h. `ready` is R_s, `work` W_s, `behind` U_s, `after` A_s, and
// `end_of_first` E.
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
    // Reductions wait for gradients; gathers of ZeRO 3 may run before the first forward.
    const int64_t moves = divides(3) ? begin : ready;
    step = std::max({step, ready + work + tail(s, behind > 0), moves + moving(s) + update(s)});
    const auto at = static_cast<size_t>(s);
    ready += forward(s) + next[at];
    if (goes_back(s))
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
  for (const GroupCost& g : blocks->groups) {
    const int64_t kept = offload.optimizer ? 0 : g.kept_bytes;
    sum += copies(g, stage) * (g.elements * g.weight_bytes / (divides(3) ? shards : 1) +
                               g.elements * kept / (divides(1) ? shards : 1) + g.factor_bytes);
  }
  return sum;
}

int64_t CandidateView::saved_by_layer(size_t k) const {
  const StackCosts& s = blocks->stacks[k];
  return s.input_bytes + (blocks->light ? 0 : s.saved_bytes);
}

int64_t CandidateView::saved_bytes(int64_t chunk) const {
  return over_layers(chunk, [&](size_t k) { return saved_by_layer(k); });
}

int64_t CandidateView::kept_bytes(int64_t chunk) const {
  if (weights(chunk, false) == 0) return 0;
  return over_layers(chunk, [&](size_t k) {
    return blocks->light ? blocks->stacks[k].input_bytes : blocks->stacks[k].kept_bytes;
  });
}

// `divided`: counts only this rank's shard of the gradients if they are reduced per micro-batch.
int64_t CandidateView::layer_gradients(size_t stack, bool divided) const {
  int64_t sum = 0;
  for (const GroupCost& g : blocks->groups)
    if (g.stack == static_cast<int>(stack))
      sum += divided ? gradient_bytes(g) : g.elements * g.sum_bytes;
  return sum;
}

// Returns the maximum scratch of a backward over three calls: the head, the chunk's last layer, and
// the layer before that. During the third, gradients of the last layer are still being reduced:
// buffer assignment reserves one call of computation for that.
int64_t CandidateView::backward_bytes(int64_t chunk, bool begun) const {
  const int64_t head = chunk + 1 == chunks() ? blocks->head.scratch_bytes : 0;
  if (layers_of(chunk) == 0) return head;
  const size_t stack = last_stack(chunk);
  const StackCosts& s = blocks->stacks[stack];
  const int64_t layer =
      s.backward.scratch_bytes + s.stream_gradient_bytes + (blocks->light ? s.saved_bytes : 0);
  if (weights(chunk, false) > 0) return std::max(head, layer);
  const int64_t gradients = layer_gradients(stack, false);
  const int64_t last = layer + (reduces_each() || !begun ? gradients : 0);
  // With recomputation between the two layers, the third call is not considered.
  const std::optional<size_t> other = of(chunk).last_but_one;
  if (!reduces_each() || !other || blocks->light) return std::max(head, last);
  const StackCosts& t = blocks->stacks[*other];
  const int64_t below = t.backward.scratch_bytes + t.stream_gradient_bytes +
                        layer_gradients(*other, false) + gradients - saved_by_layer(stack);
  return std::max({head, last, below});
}

int64_t CandidateView::bytes_by_formula() const {
  compile::PipelineShape shape;
  shape.schedule = candidate->layout.pipeline_schedule;
  shape.stages = stages();
  shape.interleave = candidate->layout.interleave;
  shape.microbatches = microbatches;
  // Greedy schedules may have fewer micro-batches in flight if chunks differ.
  const bool greedy = shape.schedule == compile::PipelineSchedule::kZeroBubble;
  int64_t most = 0;
  for (int64_t s = 0; s < stages(); ++s) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t c = s; c < chunks(); c += stages()) least = std::min(least, saved_bytes(c));
    int64_t gradients = 0;
    for (const GroupCost& g : blocks->groups)
      if (uses(g, s)) gradients += copies(g, s) * gradient_bytes(g);
    const int64_t in_flight = offloads() ? 0 : greedy ? 1 : compile::most_in_flight(shape, s);
    // In the steady state, the maximum number is in flight while the gradient sums exist.
    const bool steady = candidate->layout.interleave == 1 && microbatches > in_flight &&
                        shape.schedule == compile::PipelineSchedule::k1F1B;
    const int64_t transient =
        steady ? in_flight * least + gradients : std::max(in_flight * least, gradients);
    most = std::max(most, state_bytes(s) + transient);
  }
  return most;
}

// Saved activations may all be in the host's memory; then none are counted. Weights, gradients and
// the scratch of a backward never are.
bool CandidateView::offloads() const { return offload.layers > 0; }

// Follows the actions of each stage: a forward adds its saved bytes, a backward replaces them by
// those that its weight-gradient part still needs, and the first backward of a chunk adds its
// gradient sums.
int64_t CandidateView::bytes_of(const std::vector<std::vector<compile::Action>>& actions) const {
  int64_t most = 0;
  for (int64_t s = 0; s < stages(); ++s) {
    int64_t alive = state_bytes(s), peak = alive;
    std::vector<bool> begun(chunks(), false);
    for (const compile::Action& a : actions[s]) {
      const auto left = [&](size_t k) { return blocks->stacks[k].pending_bytes; };
      const int64_t saved = offloads() ? 0 : saved_bytes(a.chunk);
      const int64_t kept = offloads() ? 0 : kept_bytes(a.chunk);
      const int64_t pending = kept == 0 ? 0 : over_layers(a.chunk, left);
      if (a.kind == compile::ActionKind::kForward) alive += saved;
      if (a.kind == compile::ActionKind::kBackward) {
        peak = std::max(peak, alive + backward_bytes(a.chunk, begun[size_t(a.chunk)]));
        alive += kept + pending - saved;
      }
      if (a.kind == compile::ActionKind::kWeights) alive -= kept + pending;
      peak = std::max(peak, alive);
      // The sums exist from the first call that adds to them until the update.
      const bool divided = weights(a.chunk, false) > 0;
      const bool adds =
          a.kind == (divided ? compile::ActionKind::kWeights : compile::ActionKind::kBackward);
      if (!adds || begun[size_t(a.chunk)]) continue;
      begun[size_t(a.chunk)] = true;
      alive += over_layers(a.chunk, [&](size_t k) { return layer_gradients(k, true); });
    }
    most = std::max(most, peak);
  }
  return most;
}

}  // namespace tessera::plan
