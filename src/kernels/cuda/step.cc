#include "kernels/cuda/step.h"

#include <algorithm>

#include "kernels/cuda/views.h"

namespace tessera::kernels::cuda {

void squares(Stream s, View x, void* workspace, double* sum) {
  launch_squares({numbers(x), x.elements(), aligned(x.data), static_cast<double*>(workspace), sum},
                 s);
}

void first_non_finite(Stream s, View x, void* workspace, int64_t* first) {
  launch_search(
      {numbers(x), x.elements(), aligned(x.data), static_cast<int64_t*>(workspace), first}, s);
}

void clip(Stream s, const Clip& c) {
  launch_clip(
      {c.tokens, c.squares, c.loss, c.loss_scale, c.skip_before, c.norm, c.scale, c.skip, c.limit},
      s);
}

void update(Stream s, UpdateRule rule, const Update& u, const UpdateStep& step,
            const UpdateNumbers& n) {
  UpdateWork a;
  a.kind = rule == UpdateRule::kAdamW  ? UpdateKind::kAdamW
           : rule == UpdateRule::kLion ? UpdateKind::kLion
                                       : UpdateKind::kSgd;
  a.weights = numbers(u.weights);
  a.m = numbers(u.m);
  a.v = numbers(u.v);
  a.gradient = numbers(u.gradient);
  a.weights_low = numbers(u.weights_low);
  a.stochastic = u.stochastic;
  a.beta1 = step.beta1;
  a.beta2 = step.beta2;
  a.epsilon = step.epsilon;
  a.weight_decay = step.weight_decay;
  a.learning_rate = n.learning_rate;
  a.step = n.step;
  a.scale = n.scale;
  a.skip = n.skip;
  for (const Numbers& x : {a.weights, a.m, a.v, a.gradient, a.weights_low})
    CHECK(aligned(x.data), "an update of weights that are not aligned");
  for (size_t first = 0; first < u.ranges.size(); first += kMostSpans) {
    const size_t count = std::min<size_t>(kMostSpans, u.ranges.size() - first);
    a.spans = static_cast<int>(count);
    for (size_t i = 0; i < count; ++i) {
      const UpdateRange& r = u.ranges[first + i];
      a.span[i] = {r.begin, r.end, r.key, r.element, r.decay};
    }
    launch_update(a, s);
  }
}

}  // namespace tessera::kernels::cuda
