// The tensors of Hugging Face that a packed weight holds, for tests of optimizers that treat them
// separately.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/async_save.h"

namespace tessera::train {

using Numbers = std::vector<double>;

// Indices of the published tensor's elements in the packed weight, row-major, and its columns.
struct Published {
  std::string name;
  std::vector<int64_t> elements;
  int64_t columns = 0;  // 0: a vector
};

// `count` indices from `first` on in dimension 1 of [d0, d1, …], whose last dimension is columns.
inline Published part(const std::string& name, const Shape& s, int64_t first, int64_t count,
                      bool matrix) {
  Published p{name, {}, matrix ? s[-1] : 0};
  const int64_t inner = s.product(2, s.rank());
  for (int64_t a = 0; a < s[0]; ++a)
    for (int64_t b = first; b < first + count; ++b)
      for (int64_t i = 0; i < inner; ++i) p.elements.push_back((a * s[1] + b) * inner + i);
  return p;
}

inline Published whole(const checkpoint::StateTensor& t, int64_t columns) {
  Published p{"", std::vector<int64_t>(static_cast<size_t>(t.shape.elements())), columns};
  std::iota(p.elements.begin(), p.elements.end(), 0);
  return p;
}

// The tensors of Hugging Face in one of ours.
inline std::vector<Published> published(const checkpoint::StateTensor& t) {
  const auto named = [&](const char* suffix) { return t.name.ends_with(suffix); };
  const Shape& s = t.shape;
  const bool bias = named(".bias");
  if (named("attn.qkv.weight") || named("attn.qkv.bias"))
    return {part("q", s, 0, s[1] - 2, !bias), part("k", s, s[1] - 2, 1, !bias),
            part("v", s, s[1] - 1, 1, !bias)};
  if (named(".kv.weight")) return {part("k", s, 0, 1, true), part("v", s, 1, 1, true)};
  if (named("mlp.up.weight") || named("mlp.shared.up.weight"))
    return {part("gate", s, 0, 1, true), part("up", s, 1, 1, true)};
  if (named(".out.weight")) return {whole(t, s[1] * s[2])};
  return {whole(t, s.rank() > 1 ? s[-1] : 0)};
}

inline Numbers values(const checkpoint::StateTensor& t) {
  Numbers out(static_cast<size_t>(t.data.elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(t.data.f32()[i]);
  return out;
}

inline Numbers select(const Numbers& all, const std::vector<int64_t>& elements) {
  Numbers out;
  for (const int64_t e : elements) out.push_back(all[static_cast<size_t>(e)]);
  return out;
}

}  // namespace tessera::train
