#include "model/hf_names.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>

#include "model/forward.h"
#include "model/presets.h"
#include "tests/every_family.h"

namespace tessera::model {
namespace {

ModelConfig small(Family family) {
  ModelConfig m;
  apply_family(family, m);
  m.layers = 2;
  m.hidden = 12;
  m.heads = 3;
  m.feed_forward = 20;
  m.vocabulary = 30;
  m.vocabulary_multiple = 8;
  m.context = 16;
  if (family == Family::kNeox) m.rotary_pct = 0.5;
  m.tied_embeddings = family == Family::kGpt2;
  if (rule_of(family).has_encoder) {
    m.encoder_layers = 3;
    m.head_width = 8;
  }
  return m;
}

std::map<std::string, HfTensor> by_name(const ModelConfig& m) {
  std::map<std::string, HfTensor> found;
  for (HfTensor& t : hf_tensors(m)) found[t.ours] = t;
  return found;
}

// The flat place in their file of the element `at` of ours.
int64_t place_in_theirs(const HfTensor& t, const std::vector<int64_t>& at) {
  std::vector<int64_t> index(at.size());
  for (size_t k = 0; k < at.size(); ++k) index[static_cast<size_t>(t.axes[k])] = at[k];
  int64_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) flat = flat * t.view.dims()[d] + index[d];
  return flat;
}

constexpr int64_t F = 12, H = 3, D = 4, M = 20;

// models_2026.md 7.2: the modules follow the model's layers, and the embedding's half of eh_proj is
// first.
TEST(HfNames, DeepseekV3HasModulesOfMultiTokenPrediction) {
  ModelConfig m = small(Family::kDeepseekV3);
  m.dense_layers = {0};
  m.mtp_depth = 2;
  auto names = by_name(m);
  const HfTensor& projection = names.at("mtp1.projection.weight");
  EXPECT_EQ(projection.theirs, "model.layers.3.eh_proj.weight");
  EXPECT_EQ(projection.their_shape, (Shape{F, 2 * F}));
  EXPECT_EQ(place_in_theirs(projection, {2, 0, 5}), 2 * 2 * F + 5);
  EXPECT_EQ(place_in_theirs(projection, {2, 1, 5}), 2 * 2 * F + F + 5);
  EXPECT_EQ(names.at("mtp0.embedding_norm.gain").theirs, "model.layers.2.enorm.weight");
  EXPECT_EQ(names.at("mtp0.hidden_norm.gain").theirs, "model.layers.2.hnorm.weight");
  EXPECT_EQ(names.at("mtp0.norm.gain").theirs, "model.layers.2.shared_head.norm.weight");
  EXPECT_EQ(names.at("mtp0.mlp.router.weight").theirs, "model.layers.2.mlp.gate.weight");
  EXPECT_EQ(names.at("mtp0.attn.kv_up.weight").theirs, "model.layers.2.self_attn.kv_b_proj.weight");
  EXPECT_EQ(names.count("layer2.norm1.gain"), 0u);
  EXPECT_TRUE(hf_is_buffer(m, "model.layers.2.embed_tokens.weight"));
  EXPECT_TRUE(hf_is_buffer(m, "model.layers.2.shared_head.head.weight"));
  EXPECT_FALSE(hf_is_buffer(m, "model.layers.2.shared_head.norm.weight"));
  EXPECT_FALSE(hf_is_buffer(m, "model.embed_tokens.weight"));
}

TEST(HfNames, NeoxGroupsQueryKeyValueByHead) {
  auto names = by_name(small(Family::kNeox));
  const HfTensor& w = names.at("layer1.attn.qkv.weight");
  EXPECT_EQ(w.theirs, "gpt_neox.layers.1.attention.query_key_value.weight");
  EXPECT_EQ(w.their_shape, (Shape{3 * F, F}));
  for (int64_t h = 0; h < H; ++h)
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t d = 0; d < D; ++d) {
        const int64_t row = h * 3 * D + k * D + d;
        EXPECT_EQ(place_in_theirs(w, {h, k, d, 5}), row * F + 5);
        EXPECT_EQ(place_in_theirs(names.at("layer1.attn.qkv.bias"), {h, k, d}), row);
      }
}

TEST(HfNames, Gpt2HasBlocksOfQueryKeyValueAndItsWeightsLieInOut) {
  auto names = by_name(small(Family::kGpt2));
  const HfTensor& w = names.at("layer1.attn.qkv.weight");
  EXPECT_EQ(w.theirs, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(w.their_shape, (Shape{F, 3 * F}));
  EXPECT_EQ(w.shape, (Shape{H, 3, D, F}));
  for (int64_t h = 0; h < H; ++h)
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t d = 0; d < D; ++d) {
        const int64_t column = k * F + h * D + d;
        EXPECT_EQ(place_in_theirs(w, {h, k, d, 5}), 5 * 3 * F + column);
        EXPECT_EQ(place_in_theirs(names.at("layer1.attn.qkv.bias"), {h, k, d}), column);
        // attn.out: row = the dimension of the head, column = out
        EXPECT_EQ(place_in_theirs(names.at("layer1.attn.out.weight"), {7, h, d}),
                  (h * D + d) * F + 7);
      }
  EXPECT_EQ(place_in_theirs(names.at("layer0.mlp.up.weight"), {17, 3}), 3 * M + 17);
  EXPECT_EQ(place_in_theirs(names.at("layer0.mlp.down.weight"), {3, 17}), 17 * F + 3);
}

// The list also says what a checkpoint of Tessera must hold.
TEST(HfNames, WideLayersHaveTheirOwnWidth) {
  for (const Family family : every_decoder()) {
    ModelConfig m = small(family);
    m.wide_layers = {1};
    m.wide_feed_forward = 28;
    const auto names = by_name(m);
    if (m.experts > 0) {
      EXPECT_EQ(names.at("layer0.mlp.experts.down.weight").shape, (Shape{m.experts, F, M}));
      EXPECT_EQ(names.at("layer1.mlp.experts.down.weight").shape, (Shape{m.experts, F, 28}));
      EXPECT_EQ(names.at("layer1.mlp.experts.up.weight").shape[1], 28);
      continue;
    }
    EXPECT_EQ(names.at("layer0.mlp.down.weight").shape, (Shape{F, M}));
    EXPECT_EQ(names.at("layer1.mlp.down.weight").shape, (Shape{F, 28}));
    EXPECT_EQ(names.at("layer1.mlp.up.weight").shape[0], 28);
  }
}

TEST(HfNames, TheHeadIsThereUnlessItIsTied) {
  for (const Family family : {Family::kNeox, Family::kGpt2}) {
    ModelConfig m = small(family);
    m.tied_embeddings = false;
    EXPECT_EQ(by_name(m).at("head.weight").theirs,
              family == Family::kNeox ? "embed_out.weight" : "lm_head.weight");
    EXPECT_FALSE(hf_is_buffer(m, "lm_head.weight"));
    m.tied_embeddings = true;
    EXPECT_FALSE(by_name(m).contains("head.weight"));
  }
  ModelConfig tied = small(Family::kGpt2);
  EXPECT_TRUE(hf_is_embedding(tied, "lm_head.weight"));
}

TEST(HfNames, MasksAreSkippedAndBiasesAreNot) {
  const ModelConfig gpt2 = small(Family::kGpt2), neox = small(Family::kNeox);
  EXPECT_TRUE(hf_is_buffer(gpt2, "h.0.attn.bias"));
  EXPECT_TRUE(hf_is_buffer(gpt2, "transformer.h.0.attn.masked_bias"));
  EXPECT_FALSE(hf_is_buffer(gpt2, "transformer.h.0.attn.c_attn.bias"));
  EXPECT_TRUE(hf_is_buffer(neox, "gpt_neox.layers.0.attention.bias"));
  EXPECT_TRUE(hf_is_buffer(neox, "gpt_neox.layers.0.attention.rotary_emb.inv_freq"));
  EXPECT_FALSE(hf_is_buffer(neox, "gpt_neox.layers.0.attention.dense.bias"));
}

TEST(HfNames, LlamaJoinsQueryKeyValueByGroupAndGateWithValue) {
  ModelConfig m = small(Family::kLlama);
  m.heads = 6;
  m.kv_heads = 2;  // groups of 3 queries, heads of 2
  std::map<std::string, HfTensor> theirs;
  for (HfTensor& t : hf_tensors(m)) theirs[t.theirs] = t;
  const std::string attention = "model.layers.1.self_attn.", mlp = "model.layers.1.mlp.";
  EXPECT_EQ(theirs.at(attention + "q_proj.weight").their_shape, (Shape{F, F}));
  EXPECT_EQ(theirs.at(attention + "v_proj.weight").their_shape, (Shape{4, F}));
  const std::pair<const char*, int64_t> slots[] = {{"q", 0}, {"k", 3}, {"v", 4}};
  for (const auto& [name, slot] : slots) {
    const HfTensor& t = theirs.at(attention + name + "_proj.weight");
    EXPECT_EQ(t.ours, "layer1.attn.qkv.weight");
    EXPECT_EQ(t.shape, (Shape{2, 5, 2, F}));
    EXPECT_EQ(t.begin, (std::vector<int64_t>{0, slot, 0, 0}));
    EXPECT_EQ(t.part()[1], slot == 0 ? 3 : 1);
  }
  EXPECT_EQ(theirs.at(mlp + "gate_proj.weight").begin, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(theirs.at(mlp + "up_proj.weight").begin, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(theirs.at(mlp + "up_proj.weight").end(), (std::vector<int64_t>{M, 2, F}));
}

// Phi-3's file has all queries, then all keys, then all values in one tensor.
TEST(HfNames, Phi3HasQueriesKeysAndValuesOneAfterAnother) {
  ModelConfig m = small(Family::kPhi3);
  m.heads = 6;
  m.kv_heads = 2;  // groups of 3 queries, heads of 2
  const std::vector<HfTensor> all = hf_tensors(m);
  int seen = 0;
  for (const std::span<const HfTensor> group : by_theirs(all)) {
    if (group[0].theirs != "model.layers.1.self_attn.qkv_proj.weight") continue;
    ++seen;
    ASSERT_EQ(group.size(), 3U);
    const int64_t rows[] = {0, 12, 16}, slots[] = {0, 3, 4};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(group[i].their_shape, (Shape{20, F}));
      EXPECT_EQ(group[i].their_begin(), rows[i] * F);
      EXPECT_EQ(group[i].begin, (std::vector<int64_t>{0, slots[i], 0, 0}));
      EXPECT_EQ(group[i].shape, (Shape{2, 5, 2, F}));
    }
  }
  EXPECT_EQ(seen, 1);
  const HfTensor up = by_name(m).at("layer0.mlp.up.weight");
  EXPECT_EQ(up.theirs, "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(place_in_theirs(up, {3, 0, 5}), 3 * F + 5);        // a gate
  EXPECT_EQ(place_in_theirs(up, {3, 1, 5}), (M + 3) * F + 5);  // a value
}

// post_attention_layernorm is before the MLP in LLaMA and after attention elsewhere.
TEST(HfNames, NormsAreNamedByTheirPlaces) {
  using Names = std::map<std::string, std::string>;
  const auto norms = [](Family family) {
    Names found;
    for (const HfTensor& t : hf_tensors(small(family)))
      if (t.ours.starts_with("layer0.") && t.theirs.find("layernorm") != std::string::npos)
        found[t.ours.substr(7)] = t.theirs.substr(std::string("model.layers.0.").size());
    return found;
  };
  EXPECT_EQ(norms(Family::kQwen3), (Names{{"norm1.gain", "input_layernorm.weight"},
                                          {"norm2.gain", "post_attention_layernorm.weight"}}));
  EXPECT_EQ(norms(Family::kOlmo2),
            (Names{{"post_norm1.gain", "post_attention_layernorm.weight"},
                   {"post_norm2.gain", "post_feedforward_layernorm.weight"}}));
  EXPECT_EQ(norms(Family::kGemma2),
            (Names{{"norm1.gain", "input_layernorm.weight"},
                   {"norm2.gain", "pre_feedforward_layernorm.weight"},
                   {"post_norm1.gain", "post_attention_layernorm.weight"},
                   {"post_norm2.gain", "post_feedforward_layernorm.weight"}}));
}

TEST(HfNames, Qwen2JoinsBiasesAsItsWeights) {
  ModelConfig m = small(Family::kQwen2);
  m.heads = 6;
  m.kv_heads = 2;  // groups of 3 queries, heads of 2
  std::map<std::string, HfTensor> theirs;
  for (HfTensor& t : hf_tensors(m)) theirs[t.theirs] = t;
  const std::pair<const char*, int64_t> slots[] = {{"q", 0}, {"k", 3}, {"v", 4}};
  for (const auto& [name, slot] : slots) {
    const HfTensor& t = theirs.at(fmt::format("model.layers.1.self_attn.{}_proj.bias", name));
    EXPECT_EQ(t.ours, "layer1.attn.qkv.bias");
    EXPECT_EQ(t.shape, (Shape{2, 5, 2}));
    EXPECT_EQ(t.their_shape, (Shape{slot == 0 ? F : 4}));
    EXPECT_EQ(t.begin, (std::vector<int64_t>{0, slot, 0}));
  }
}

TEST(HfNames, MixtralHasAMatrixPerExpert) {
  std::map<std::string, HfTensor> theirs;
  for (HfTensor& t : hf_tensors(small(Family::kMixtral))) theirs[t.theirs] = t;
  const std::string moe = "model.layers.1.block_sparse_moe.";
  EXPECT_EQ(theirs.at(moe + "gate.weight").ours, "layer1.mlp.router.weight");
  EXPECT_EQ(theirs.at(moe + "gate.weight").their_shape, (Shape{8, F}));
  for (const auto& [name, slot] : {std::pair<const char*, int64_t>{"w1", 0}, {"w3", 1}}) {
    const HfTensor& t = theirs.at(fmt::format("{}experts.5.{}.weight", moe, name));
    EXPECT_EQ(t.ours, "layer1.mlp.experts.up.weight");
    EXPECT_EQ(t.shape, (Shape{8, M, 2, F}));
    EXPECT_EQ(t.their_shape, (Shape{M, F}));
    EXPECT_EQ(t.begin, (std::vector<int64_t>{5, 0, slot, 0}));
    EXPECT_EQ(t.end(), (std::vector<int64_t>{6, M, slot + 1, F}));
  }
  EXPECT_EQ(theirs.at(moe + "experts.5.w2.weight").begin, (std::vector<int64_t>{5, 0, 0}));
  EXPECT_EQ(theirs.count("model.layers.1.mlp.gate_proj.weight"), 0u);
}

// Layers without experts have an MLP.
TEST(HfNames, DenseLayersHaveNoExperts) {
  ModelConfig m = small(Family::kMixtral);
  m.dense_layers = {0};
  const auto names = by_name(m);
  EXPECT_EQ(names.count("layer0.mlp.router.weight"), 0u);
  EXPECT_EQ(names.count("layer0.mlp.down.weight"), 1u);
  EXPECT_EQ(names.count("layer1.mlp.router.weight"), 1u);
  EXPECT_EQ(names.count("layer1.mlp.down.weight"), 0u);
}

// With an MLP as other families have it in its dense layers.
TEST(HfNames, Qwen3MoeNamesExpertsLikeMlps) {
  ModelConfig m = small(Family::kQwen3Moe);
  m.dense_layers = {0};
  std::map<std::string, HfTensor> theirs;
  for (HfTensor& t : hf_tensors(m)) theirs[t.theirs] = t;
  EXPECT_EQ(theirs.at("model.layers.1.mlp.gate.weight").ours, "layer1.mlp.router.weight");
  EXPECT_EQ(theirs.at("model.layers.1.mlp.experts.3.up_proj.weight").begin,
            (std::vector<int64_t>{3, 0, 1, 0}));
  EXPECT_EQ(theirs.at("model.layers.0.mlp.up_proj.weight").ours, "layer0.mlp.up.weight");
  EXPECT_EQ(theirs.count("model.layers.0.mlp.gate.weight"), 0u);
}

TEST(HfNames, DeepseekHasLatentsAndSharedExperts) {
  ModelConfig m = small(Family::kDeepseekV3);
  m.dense_layers = {0};
  m.shared_feed_forward = 10;
  m.latent = {
      .query_rank = 6, .key_value_rank = 5, .nope_width = 4, .rope_width = 2, .value_width = 3};
  std::map<std::string, std::vector<HfTensor>> theirs;
  for (HfTensor& t : hf_tensors(m)) theirs[t.theirs].push_back(t);
  const std::string layer = "model.layers.1.", attention = layer + "self_attn.";
  EXPECT_EQ(theirs.at(attention + "q_b_proj.weight")[0].shape, Shape({3, 6, 6}));
  EXPECT_EQ(theirs.at(attention + "kv_b_proj.weight")[0].shape, Shape({3, 7, 5}));
  EXPECT_EQ(theirs.at(attention + "o_proj.weight")[0].their_shape, Shape({12, 9}));
  const std::vector<HfTensor>& down = theirs.at(attention + "kv_a_proj_with_mqa.weight");
  ASSERT_EQ(down.size(), 2u);
  EXPECT_EQ(down[0].ours, "layer1.attn.kv_down.weight");
  EXPECT_EQ(down[1].ours, "layer1.attn.k_rope.weight");
  EXPECT_EQ(down[1].their_row, 5);
  EXPECT_EQ(theirs.at(layer + "mlp.shared_experts.up_proj.weight")[0].ours,
            "layer1.mlp.shared.up.weight");
  EXPECT_EQ(theirs.at(layer + "mlp.gate.e_score_correction_bias")[0].ours,
            "layer1.mlp.router.bias");
  EXPECT_EQ(theirs.count("model.layers.0.mlp.gate.weight"), 0u);
  m.latent.query_rank = 0;
  EXPECT_EQ(by_name(m).at("layer0.attn.q.weight").theirs, "model.layers.0.self_attn.q_proj.weight");
}

// All experts are in one tensor, [inputs, outputs], with gates and values in turn.
TEST(HfNames, GptOssHasTheExpertsOfALayerInOneTensor) {
  const ModelConfig m = small(Family::kGptOss);
  int64_t ups = 0, downs = 0;
  for (const HfTensor& t : hf_tensors(m)) {
    const int64_t e = t.begin[0];
    if (t.theirs == "model.layers.1.mlp.experts.gate_up_proj") {
      ++ups;
      EXPECT_EQ(t.ours, "layer1.mlp.experts.up.weight");
      EXPECT_EQ(t.shape, (Shape{8, M, 2, F}));
      EXPECT_EQ(t.their_shape, (Shape{8, F, 2 * M}));
      EXPECT_EQ(t.part(), (Shape{1, M, 2, F}));
      EXPECT_EQ(t.their_begin(), e * F * 2 * M);
      EXPECT_EQ(place_in_theirs(t, {0, 3, 1, 5}), 5 * 2 * M + 2 * 3 + 1);
    }
    if (t.theirs == "model.layers.1.mlp.experts.down_proj") {
      ++downs;
      EXPECT_EQ(t.their_begin(), e * M * F);
      EXPECT_EQ(place_in_theirs(t, {0, 3, 5}), 5 * F + 3);
    }
  }
  EXPECT_EQ(ups, 8);
  EXPECT_EQ(downs, 8);
  const auto names = by_name(m);
  EXPECT_EQ(names.at("layer0.attn.sinks").theirs, "model.layers.0.self_attn.sinks");
  EXPECT_EQ(names.at("layer0.attn.out.bias").theirs, "model.layers.0.self_attn.o_proj.bias");
  EXPECT_EQ(names.at("layer0.mlp.router.logit_bias").theirs, "model.layers.0.mlp.router.bias");
}

TEST(HfNames, T5HasItsPartsInNumberedLayersAndItsBiasesInTheFirst) {
  const ModelConfig m = small(Family::kT5);
  std::map<std::string, HfTensor> theirs;
  for (HfTensor& t : hf_tensors(m)) theirs[t.theirs] = t;
  const HfTensor& k = theirs.at("decoder.block.1.layer.1.EncDecAttention.k.weight");
  EXPECT_EQ(k.ours, "decoder1.cross.kv.weight");
  EXPECT_EQ(k.their_shape, (Shape{24, F}));
  EXPECT_EQ(k.begin, (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(theirs.at("encoder.block.2.layer.1.DenseReluDense.wi_1.weight").begin,
            (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(theirs.at("decoder.block.0.layer.2.layer_norm.weight").ours, "decoder0.norm2.gain");
  const HfTensor& bias =
      theirs.at("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  EXPECT_EQ(bias.ours, "encoder.distances.weight");
  EXPECT_EQ(place_in_theirs(bias, {2, 5}), 5 * H + 2);
  EXPECT_TRUE(hf_is_embedding(m, "decoder.embed_tokens.weight"));
  EXPECT_FALSE(hf_is_embedding(m, "shared.weight"));
}

// What the forward function declares as weights is what the map names, with the same shapes.
TEST(HfNames, AreAllTheWeightsOfTheModel) {
  for (const Family family : every_family()) {
    const ModelConfig m = small(family);
    std::set<std::string> shapes, declared;
    for (const HfTensor& t : hf_tensors(m)) {
      const size_t dot = t.ours.find('.');
      const bool layered = std::isdigit(t.ours[dot - 1]) != 0;
      const size_t letters = t.ours.find_first_of("0123456789");
      const std::string name = layered ? t.ours.substr(0, letters) + t.ours.substr(dot) : t.ours;
      shapes.insert(name + " " + to_string(t.shape));
    }
    for (const Value& v : forward(m, 1, 8).values)
      if (v.role == Role::kWeight) declared.insert(v.name + " " + to_string(v.shape));
    EXPECT_EQ(shapes, declared);
  }
}

TEST(HfNames, InverseUndoesAxes) {
  const std::vector<int> axes{2, 0, 3, 1}, back = inverse(axes);
  for (size_t k = 0; k < axes.size(); ++k)
    EXPECT_EQ(back[static_cast<size_t>(axes[k])], static_cast<int>(k));
}

}  // namespace
}  // namespace tessera::model
