#include "model/hf_config.h"

#include <cmath>

#include "base/config.h"
#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;  // above any model; keeps products in range
constexpr int64_t kMaxLayers = 10'000;

// Reads keys of one object, with defaults, in the words of the file they stand in.
class HfReader {
 public:
  HfReader(const Tree& config, std::string source) : config_(config), source_(std::move(source)) {}

  // Absent and null both mean: the default.
  const Tree* find(std::string_view key) const {
    const Tree* t = config_.find(key);
    return t && !t->is_null() ? t : nullptr;
  }
  template <class T>
  T get(std::string_view key, T otherwise) const {
    if (const Tree* t = find(key)) read_value(*t, otherwise, place(key));
    return otherwise;
  }
  int64_t size(std::string_view key, int64_t otherwise) const {
    const auto n = get<int64_t>(key, otherwise);
    if (n <= 0 || n > kMaxSize)
      refuse(key, std::to_string(n), fmt::format("wanted a size from 1 to {}", kMaxSize));
    return n;
  }
  double number(std::string_view key, double otherwise, double low, double high) const {
    const auto x = get<double>(key, otherwise);
    if (!(x >= low && x <= high))
      refuse(key, fmt::format("{}", x), fmt::format("wanted a number from {} to {}", low, high));
    return x;
  }
  // The model must have this switch as we compute it.
  void must_be(std::string_view key, bool wanted, std::string_view what) const {
    if (get<bool>(key, wanted) == wanted) return;
    refuse(key, wanted ? "false" : "true", fmt::format("Tessera does not compute {}", what));
  }
  [[noreturn]] void refuse(std::string_view key, std::string_view found,
                           std::string_view why) const {
    throw Error("{}: {} is {}: {}", place(key).at, key, found, why);
  }
  Place place(std::string_view key) const {
    const Tree* t = config_.find(key);
    const bool known = t && t->line > 0;
    return {known ? fmt::format("{}:{}:{}", source_, t->line, t->column) : source_,
            std::string(key)};
  }

 private:
  const Tree& config_;
  std::string source_;
};

Gelu gelu_of(const HfReader& in, std::string_view key, const char* otherwise) {
  const auto name = in.get<std::string>(key, otherwise);
  if (name == "gelu") return Gelu::kErf;
  for (const char* tanh : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == tanh) return Gelu::kTanh;
  in.refuse(key, name, "Tessera computes gelu, gelu_new, gelu_fast and gelu_pytorch_tanh");
}

void check_common(const HfReader& in) {
  if (in.find("quantization_config"))
    in.refuse("quantization_config", "given",
              "quantised weights cannot be trained on. Export the model in f32, bf16 or f16 first");
  in.must_be("add_cross_attention", false, "cross attention in this family");
}

void check_heads(const HfReader& in, std::string_view key, const ModelConfig& m) {
  if (m.hidden % m.heads != 0)
    in.refuse(key, std::to_string(m.heads),
              fmt::format("it does not divide the width {}", m.hidden));
}

// transformers 4: rotary_pct, rotary_emb_base, rope_scaling; 5: all in rope_parameters.
void read_rotary(const HfReader& in, const std::string& source, ModelConfig& m) {
  m.rotary_share = in.number("rotary_pct", 0.25, 0, 1);
  m.rotary_base = in.number("rotary_emb_base", 10000, 1, 1e12);
  m.rotary_base = in.number("rope_theta", m.rotary_base, 1, 1e12);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Tree* t = in.find(key);
    if (!t) continue;
    if (!t->as_members()) in.refuse(key, "no object", "wanted an object or null");
    const HfReader rope(*t, source);
    const auto old = rope.get<std::string>("type", "default");
    const auto kind = rope.get<std::string>("rope_type", old);
    if (kind != "default")
      rope.refuse("rope_type", kind,
                  "Tessera computes unscaled rotary embeddings only. A model that was trained "
                  "without scaling works up to its context when this key is removed");
    m.rotary_base = rope.number("rope_theta", m.rotary_base, 1, 1e12);
    m.rotary_share = rope.number("partial_rotary_factor", m.rotary_share, 0, 1);
  }
  const auto turned = static_cast<int64_t>(static_cast<double>(m.head_size()) * m.rotary_share);
  if (turned % 2 != 0)
    in.refuse("rotary_pct", fmt::format("{}", m.rotary_share),
              fmt::format("{} of {} dimensions of a head are turned, wanted an even number", turned,
                          m.head_size()));
}

ModelConfig read_neox(const HfReader& in, const std::string& source) {
  ModelConfig m;
  m.family = Family::kNeox;
  m.vocabulary = in.size("vocab_size", 50432);
  m.hidden = in.size("hidden_size", 6144);
  m.layers = in.size("num_hidden_layers", 44);
  m.heads = in.size("num_attention_heads", 64);
  m.feed_forward = in.size("intermediate_size", 24576);
  m.context = in.size("max_position_embeddings", 2048);
  m.gelu = gelu_of(in, "hidden_act", "gelu");
  m.norm_epsilon = in.number("layer_norm_eps", 1e-5, 0, 1);
  m.parallel_residual = in.get<bool>("use_parallel_residual", true);
  m.tied_embeddings = in.get<bool>("tie_word_embeddings", false);
  m.dropout = in.number("hidden_dropout", 0, 0, 1);
  m.attention_dropout = in.number("attention_dropout", 0, 0, 1);
  m.init_std = in.number("initializer_range", 0.02, 0, 100);
  in.must_be("attention_bias", true, "attention without biases");
  check_heads(in, "num_attention_heads", m);
  read_rotary(in, source, m);
  return m;
}

ModelConfig read_gpt2(const HfReader& in) {
  ModelConfig m;
  m.family = Family::kGpt2;
  m.vocabulary = in.size("vocab_size", 50257);
  m.hidden = in.size("n_embd", 768);
  m.layers = in.size("n_layer", 12);
  m.heads = in.size("n_head", 12);
  m.feed_forward = in.size("n_inner", 4 * m.hidden);
  m.context = in.size("n_positions", 1024);
  m.gelu = gelu_of(in, "activation_function", "gelu_new");
  m.norm_epsilon = in.number("layer_norm_epsilon", 1e-5, 0, 1);
  m.tied_embeddings = in.get<bool>("tie_word_embeddings", true);
  m.parallel_residual = false;
  m.rotary_share = 0;
  m.dropout = in.number("resid_pdrop", 0.1, 0, 1);
  m.attention_dropout = in.number("attn_pdrop", 0.1, 0, 1);
  m.init = Initialiser::kNormal;
  m.output_init = Initialiser::kScaledNormal;
  m.init_std = in.number("initializer_range", 0.02, 0, 100);
  in.must_be("scale_attn_weights", true, "attention without its scale");
  in.must_be("scale_attn_by_inverse_layer_idx", false, "a scale of attention by layer");
  check_heads(in, "n_head", m);
  return m;
}

// The keys that both families have in common, at the end as transformers writes them.
void add_common(Tree& out, const ModelConfig& m, std::optional<int64_t> end_of_text, DType dtype) {
  out.set("initializer_range", Tree(m.init_std));
  out.set("bos_token_id", end_of_text ? Tree(*end_of_text) : Tree());
  out.set("eos_token_id", end_of_text ? Tree(*end_of_text) : Tree());
  out.set("tie_word_embeddings", Tree(m.tied_embeddings));
  out.set("vocab_size", Tree(m.padded_vocabulary()));
  out.set("use_cache", Tree(true));
  const char* name = dtype == DType::kBF16  ? "bfloat16"
                     : dtype == DType::kF16 ? "float16"
                                            : "float32";
  out.set("torch_dtype", Tree(std::string(name)));
}

Tree architectures(const char* name) {
  Tree list = Tree::list();
  list.push(Tree(std::string(name)));
  return list;
}

int64_t inner(const ModelConfig& m) { return m.feed_forward > 0 ? m.feed_forward : 4 * m.hidden; }

Tree neox_config(const ModelConfig& m) {
  Tree out = Tree::object();
  out.set("architectures", architectures("GPTNeoXForCausalLM"));
  out.set("model_type", Tree(std::string("gpt_neox")));
  out.set("hidden_size", Tree(m.hidden));
  out.set("num_hidden_layers", Tree(m.layers));
  out.set("num_attention_heads", Tree(m.heads));
  out.set("intermediate_size", Tree(inner(m)));
  out.set("max_position_embeddings", Tree(m.context));
  out.set("hidden_act", Tree(std::string(m.gelu == Gelu::kErf ? "gelu" : "gelu_fast")));
  out.set("layer_norm_eps", Tree(m.norm_epsilon));
  out.set("rotary_pct", Tree(m.rotary_share));
  out.set("rotary_emb_base", Tree(m.rotary_base));
  out.set("use_parallel_residual", Tree(m.parallel_residual));
  out.set("attention_bias", Tree(true));
  out.set("hidden_dropout", Tree(m.dropout));
  out.set("attention_dropout", Tree(m.attention_dropout));
  return out;
}

Tree gpt2_config(const ModelConfig& m) {
  Tree out = Tree::object();
  out.set("architectures", architectures("GPT2LMHeadModel"));
  out.set("model_type", Tree(std::string("gpt2")));
  out.set("n_embd", Tree(m.hidden));
  out.set("n_layer", Tree(m.layers));
  out.set("n_head", Tree(m.heads));
  out.set("n_inner", inner(m) == 4 * m.hidden ? Tree() : Tree(m.feed_forward));
  out.set("n_positions", Tree(m.context));
  out.set("n_ctx", Tree(m.context));
  out.set("activation_function", Tree(std::string(m.gelu == Gelu::kErf ? "gelu" : "gelu_new")));
  out.set("layer_norm_epsilon", Tree(m.norm_epsilon));
  out.set("resid_pdrop", Tree(m.dropout));
  out.set("embd_pdrop", Tree(m.dropout));
  out.set("attn_pdrop", Tree(m.attention_dropout));
  out.set("scale_attn_weights", Tree(true));
  return out;
}

}  // namespace

ModelConfig model_from_hf_config(const Tree& config, const std::string& source) {
  if (!config.as_members()) throw Error("{}: no JSON object: this is no config.json", source);
  const HfReader in(config, source);
  const auto type = in.get<std::string>("model_type", "");
  check_common(in);
  ModelConfig m;
  if (type == "gpt_neox")
    m = read_neox(in, source);
  else if (type == "gpt2")
    m = read_gpt2(in);
  else
    in.refuse("model_type", type.empty() ? "absent" : type,
              "this version reads gpt_neox (Pythia, GPT-NeoX) and gpt2");
  if (m.layers > kMaxLayers)
    throw Error("{}: {} layers, wanted 1 to {}", source, m.layers, kMaxLayers);
  m.vocabulary_multiple = 1;
  return m;
}

Tree hf_config_of_model(const ModelConfig& model, std::optional<int64_t> end_of_text, DType dtype) {
  Tree out = model.family == Family::kNeox ? neox_config(model) : gpt2_config(model);
  add_common(out, model, end_of_text, dtype);
  return out;
}

Tree hf_generation_config(std::optional<int64_t> end_of_text) {
  Tree out = Tree::object();
  out.set("_from_model_config", Tree(true));
  if (end_of_text) {
    out.set("bos_token_id", Tree(*end_of_text));
    out.set("eos_token_id", Tree(*end_of_text));
  }
  return out;
}

}  // namespace tessera
