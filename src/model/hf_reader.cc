// Typed access to the keys of a config.json, with ranges and defaults. A message names the file,
// line and key. An explicit null counts as absent, as in transformers.
#include "model/hf_reader.h"

#include "base/error.h"

namespace tessera::model {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;  // above any model; products stay in range
constexpr double kMaxBase = 1e12;

void read_scale(const HfReader& in, const HfReader& rope, const ModelConfig& m, RopeScaling& s) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"})
    if (!rope.find(key)) rope.refuse(key, "absent", "rope_type llama3 wants a number");
  s.factor = rope.number("factor", 8, 1, 1e6);
  s.low_freq_factor = rope.number("low_freq_factor", 1, 0, 1e6);
  s.high_freq_factor = rope.number("high_freq_factor", 4, 0, 1e6);
  s.original_max_position_embeddings = in.size(
      "original_max_position_embeddings", rope.size("original_max_position_embeddings", m.context));
  if (s.high_freq_factor <= s.low_freq_factor)
    rope.refuse("high_freq_factor", fmt::format("{}", s.high_freq_factor),
                fmt::format("expected more than low_freq_factor = {}", s.low_freq_factor));
}

void read_share(const HfReader& in, const char* key, RotaryKeys keys, ModelConfig& m) {
  m.rotary_pct = in.number(key, m.rotary_pct, 0, 1);
  if (keys.share == nullptr && m.rotary_pct != 1)
    in.refuse(key, fmt::format("{}", m.rotary_pct),
              "heads of this family are turned whole, by transformers too. Remove the key");
}

// Reads rope_scaling or rope_parameters. Old files call the kind `type`, new ones `rope_type`.
void read_rope(const HfReader& in, const HfReader& rope, Ropes known, ModelConfig& m) {
  for (const char* layers : {"full_attention", "sliding_attention"})
    if (rope.find(layers))
      rope.refuse(layers, "given", "Tessera turns all layers alike. Put its entries in its place");
  const auto old = rope.get<std::string>("type", "default");
  const auto kind = rope.get<std::string>("rope_type", old);
  const bool scales = kind == "llama3" && known == Ropes::kUnscaledAndLlama3;
  if (scales) read_scale(in, rope, m, m.rope_scaling);
  if (!scales && kind != "default")
    rope.refuse("rope_type", kind,
                fmt::format("Tessera computes {} rotary embeddings only. A model that was trained "
                            "without scaling works up to its context when this key is removed",
                            known == Ropes::kUnscaled ? "unscaled" : "unscaled and llama3"));
}

}  // namespace

const Tree* HfReader::find(std::string_view key) const {
  const Tree* t = config_.find(key);
  return t && !t->is_null() ? t : nullptr;
}

bool HfReader::is_null(std::string_view key) const {
  const Tree* t = config_.find(key);
  return t && t->is_null();
}

bool HfReader::empty() const { return config_.as_members()->empty(); }

int64_t HfReader::size(std::string_view key, int64_t otherwise) const {
  const auto n = get<int64_t>(key, otherwise);
  if (n <= 0 || n > kMaxSize)
    refuse(key, std::to_string(n), fmt::format("expected a size from 1 to {}", kMaxSize));
  return n;
}

double HfReader::number(std::string_view key, double otherwise, double low, double high) const {
  const auto x = get<double>(key, otherwise);
  if (!(x >= low && x <= high))
    refuse(key, fmt::format("{}", x), fmt::format("expected a number from {} to {}", low, high));
  return x;
}

void HfReader::must_be(std::string_view key, bool wanted, std::string_view what) const {
  if (get<bool>(key, wanted) == wanted) return;
  refuse(key, wanted ? "false" : "true", fmt::format("Tessera does not compute {}", what));
}

void HfReader::refuse(std::string_view key, std::string_view found, std::string_view why) const {
  throw Error("{}: {} is {}: {}", place(key).at, key, found, why);
}

HfReader HfReader::object(std::string_view key) const {
  const Tree* t = find(key);
  if (!t || !t->as_members()) refuse(key, "no object", "expected an object or null");
  return {*t, source_};
}

Place HfReader::place(std::string_view key) const {
  const Tree* t = config_.find(key);
  const bool known = t && t->line > 0;
  return {known ? fmt::format("{}:{}:{}", source_, t->line, t->column) : source_, std::string(key)};
}

GeluForm gelu_of(const HfReader& in, std::string_view key, const char* otherwise) {
  const auto name = in.get<std::string>(key, otherwise);
  if (name == "gelu") return GeluForm::kErf;
  for (const char* tanh : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == tanh) return GeluForm::kTanh;
  in.refuse(key, name, "Tessera computes gelu, gelu_new, gelu_fast and gelu_pytorch_tanh");
}

void check_heads(const HfReader& in, std::string_view key, const ModelConfig& m) {
  if (m.hidden % m.heads != 0)
    in.refuse(key, std::to_string(m.heads),
              fmt::format("it does not divide the width {}", m.hidden));
}

void read_rotary(const HfReader& in, RotaryKeys keys, Ropes known, ModelConfig& m) {
  m.rope_theta = in.number(keys.base, m.rope_theta, 1, kMaxBase);
  if (keys.share != nullptr) read_share(in, keys.share, keys, m);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!in.find(key)) continue;
    const HfReader rope = in.object(key);
    if (rope.empty()) continue;
    read_rope(in, rope, known, m);
    m.rope_theta = rope.number("rope_theta", m.rope_theta, 1, kMaxBase);
    read_share(rope, "partial_rotary_factor", keys, m);
    break;  // if both are given, rope_parameters is ignored
  }
  const auto turned = static_cast<int64_t>(static_cast<double>(m.head_size()) * m.rotary_pct);
  if (turned % 2 != 0 || turned == 0)
    in.refuse(
        keys.share != nullptr ? keys.share : "head_dim", fmt::format("{}", m.rotary_pct),
        fmt::format("{} of {} dimensions of a head are turned, expected an even number of 2 or "
                    "more",
                    turned, m.head_size()));
}

void check_head_dim(const HfReader& in, const ModelConfig& m) {
  if (const int64_t d = in.size("head_dim", m.head_size()); d != m.head_size())
    in.refuse("head_dim", std::to_string(d),
              fmt::format("heads of this family have width / heads = {}", m.head_size()));
}

Tree hf_config_start(const char* architecture, const char* model_type) {
  Tree list = Tree::list(), out = Tree::object();
  list.push(Tree(std::string(architecture)));
  out.set("architectures", std::move(list));
  out.set("model_type", Tree(std::string(model_type)));
  return out;
}

}  // namespace tessera::model
