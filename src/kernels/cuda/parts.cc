// The operands of attention's textbook parts.
#include "kernels/cuda/attention_parts.h"
#include "kernels/cuda/views.h"

namespace tessera::kernels::cuda {
namespace {

PartsWork work_of(View qkv) {
  const Shape& q = qkv.shape;
  PartsWork w;
  w.b = q[0];
  w.t = q[1];
  w.kv = q[2];
  w.g = q[3] - 2;
  w.d = q[4];
  w.qkv = numbers(qkv);
  w.at = {q[1] * q[2] * q[3] * q[4], q[2] * q[3] * q[4], q[3] * q[4], q[4]};
  return w;
}

}  // namespace

void attention_scores(Stream s, View qkv, float scale, View scores, int, void*) {
  PartsWork w = work_of(qkv);
  w.scale = scale;
  w.square = numbers(scores);
  launch_attention_scores(w, s);
}

void attention_scores_grad(Stream s, View qkv, float scale, View d_scores, View d_qkv, int, void*) {
  PartsWork w = work_of(qkv);
  w.scale = scale;
  w.d_square = numbers(d_scores);
  w.d_qkv = numbers(d_qkv);
  launch_attention_scores_grad(w, s);
}

void attention_mix(Stream s, View qkv, View probabilities, View out, int, void*) {
  PartsWork w = work_of(qkv);
  w.square = numbers(probabilities);
  w.out = numbers(out);
  launch_attention_mix(w, s);
}

void attention_mix_grad(Stream s, const AttentionMixGrad& a, void*) {
  PartsWork w = work_of(a.qkv);
  w.square = numbers(a.probabilities);
  w.d_square = numbers(a.d_probabilities);
  w.out = numbers(a.d_out);
  w.d_qkv = numbers(a.d_qkv);
  launch_attention_mix_grad(w, s);
}

void softmax(Stream s, View x, View y) {
  launch_softmax({rows_of(x), columns_of(x), numbers(x), {}, numbers(y)}, s);
}

void softmax_grad(Stream s, View y, View dy, View dx) {
  launch_softmax_grad({rows_of(y), columns_of(y), numbers(y), numbers(dy), numbers(dx)}, s);
}

}  // namespace tessera::kernels::cuda
