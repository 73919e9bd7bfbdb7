#include "model/hf_names.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<int> same_order(int rank) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// The same dimensions on both sides, in the same order.
HfTensor same(std::string ours, std::string theirs, const Shape& shape) {
  return {std::move(ours), std::move(theirs), shape, shape, shape, same_order(shape.rank())};
}

// Theirs has fewer dimensions, each the product of some of ours in the same order.
HfTensor flat(std::string ours, std::string theirs, const Shape& shape, Shape their_shape) {
  return {std::move(ours), std::move(theirs),       shape, std::move(their_shape),
          shape,           same_order(shape.rank())};
}

HfTensor moved(std::string ours, std::string theirs, Shape their_shape, Shape view,
               std::vector<int> axes) {
  std::vector<int64_t> shape;
  for (const int a : axes) shape.push_back(view[a]);
  return {std::move(ours),        std::move(theirs), Shape(std::move(shape)),
          std::move(their_shape), std::move(view),   std::move(axes)};
}

struct Sizes {
  int64_t V, F, H, D, M;
};

Sizes sizes_of(const ModelConfig& m) {
  CHECK(m.heads > 0 && m.hidden % m.heads == 0, "hidden {} heads {}", m.hidden, m.heads);
  return {m.padded_vocabulary(), m.hidden, m.heads, m.head_size(), inner_width(m)};
}

void add_norm(std::vector<HfTensor>& all, const std::string& ours, const std::string& theirs,
              int64_t F) {
  all.push_back(same(ours + ".gain", theirs + ".weight", {F}));
  all.push_back(same(ours + ".bias", theirs + ".bias", {F}));
}

void add_neox_layer(std::vector<HfTensor>& all, int64_t layer, const Sizes& z) {
  const auto [V, F, H, D, M] = z;
  const std::string ours = fmt::format("layer{}.", layer);
  const std::string theirs = fmt::format("gpt_neox.layers.{}.", layer);
  const std::string qkv = theirs + "attention.query_key_value.";
  const std::string out = theirs + "attention.dense.";
  const std::string up = theirs + "mlp.dense_h_to_4h.", down = theirs + "mlp.dense_4h_to_h.";
  add_norm(all, ours + "norm1", theirs + "input_layernorm", F);
  all.push_back(flat(ours + "attn.qkv.weight", qkv + "weight", {H, 3, D, F}, {3 * F, F}));
  all.push_back(flat(ours + "attn.qkv.bias", qkv + "bias", {H, 3, D}, {3 * F}));
  all.push_back(flat(ours + "attn.out.weight", out + "weight", {F, H, D}, {F, F}));
  all.push_back(same(ours + "attn.out.bias", out + "bias", {F}));
  add_norm(all, ours + "norm2", theirs + "post_attention_layernorm", F);
  all.push_back(same(ours + "mlp.up.weight", up + "weight", {M, F}));
  all.push_back(same(ours + "mlp.up.bias", up + "bias", {M}));
  all.push_back(same(ours + "mlp.down.weight", down + "weight", {F, M}));
  all.push_back(same(ours + "mlp.down.bias", down + "bias", {F}));
}

void add_gpt2_layer(std::vector<HfTensor>& all, int64_t layer, const Sizes& z) {
  const auto [V, F, H, D, M] = z;
  const std::string ours = fmt::format("layer{}.", layer);
  const std::string theirs = fmt::format("transformer.h.{}.", layer);
  const std::string qkv = theirs + "attn.c_attn.", out = theirs + "attn.c_proj.";
  const std::string up = theirs + "mlp.c_fc.", down = theirs + "mlp.c_proj.";
  add_norm(all, ours + "norm1", theirs + "ln_1", F);
  all.push_back(
      moved(ours + "attn.qkv.weight", qkv + "weight", {F, 3 * F}, {F, 3, H, D}, {2, 1, 3, 0}));
  all.push_back(moved(ours + "attn.qkv.bias", qkv + "bias", {3 * F}, {3, H, D}, {1, 0, 2}));
  all.push_back(moved(ours + "attn.out.weight", out + "weight", {F, F}, {H, D, F}, {2, 0, 1}));
  all.push_back(same(ours + "attn.out.bias", out + "bias", {F}));
  add_norm(all, ours + "norm2", theirs + "ln_2", F);
  all.push_back(moved(ours + "mlp.up.weight", up + "weight", {F, M}, {F, M}, {1, 0}));
  all.push_back(same(ours + "mlp.up.bias", up + "bias", {M}));
  all.push_back(moved(ours + "mlp.down.weight", down + "weight", {M, F}, {M, F}, {1, 0}));
  all.push_back(same(ours + "mlp.down.bias", down + "bias", {F}));
}

const char* head_name(Family family) {
  return family == Family::kNeox ? "embed_out.weight" : "lm_head.weight";
}

}  // namespace

int64_t inner_width(const ModelConfig& model) {
  return model.feed_forward > 0 ? model.feed_forward : 4 * model.hidden;
}

std::string_view hf_prefix(Family family) {
  return family == Family::kNeox ? "gpt_neox." : "transformer.";
}

std::vector<HfTensor> hf_tensors(const ModelConfig& model) {
  const Sizes z = sizes_of(model);
  const bool neox = model.family == Family::kNeox;
  const std::string prefix(hf_prefix(model.family));
  std::vector<HfTensor> all;
  all.push_back(
      same("embed.weight", prefix + (neox ? "embed_in.weight" : "wte.weight"), {z.V, z.F}));
  if (!neox)
    all.push_back(same("embed.position.weight", prefix + "wpe.weight", {model.context, z.F}));
  for (int64_t layer = 0; layer < model.layers; ++layer)
    neox ? add_neox_layer(all, layer, z) : add_gpt2_layer(all, layer, z);
  add_norm(all, "head.norm", prefix + (neox ? "final_layer_norm" : "ln_f"), z.F);
  if (!model.tied_embeddings)
    all.push_back(same("head.weight", head_name(model.family), {z.V, z.F}));
  return all;
}

std::vector<int> inverse(const std::vector<int>& axes) {
  std::vector<int> back(axes.size());
  for (size_t k = 0; k < axes.size(); ++k) back[static_cast<size_t>(axes[k])] = static_cast<int>(k);
  return back;
}

bool hf_is_buffer(const ModelConfig& model, std::string_view name) {
  if (model.tied_embeddings && name == head_name(model.family)) return true;
  if (name.ends_with(".masked_bias") || name.ends_with(".rotary_emb.inv_freq")) return true;
  return name.ends_with(model.family == Family::kNeox ? ".attention.bias" : ".attn.bias");
}

}  // namespace tessera
