// Reads and writes the rotary embedding and the sliding windows of a config.json, in the forms of
// transformers 4 and 5. A kind of rotary embedding that a family does not compute is an error.
//
// Keys were renamed over the years (type → rope_type, rope_scaling → rope_parameters,
// sliding_window with max_window_layers → layer_types), and files of all versions are in use, so
// each is read with the default that the transformers class has, which differs between families.
// What is written is the form of version 4, which version 5 reads too.
//
// Errors are preferred to approximations: a rope_type that is computed slightly differently gives a
// model that loads, and is worse at long contexts.
#include "model/hf_attention.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "model/forward.h"

namespace tessera::model {
namespace {

constexpr double kMaxBase = 1e12, kMaxFactor = 1e6, kMinFactor = 1e-6;

void read_rotary_pct(const HfReader& in, const char* key, RotaryKeys keys, ModelConfig& m) {
  m.rotary_pct = in.number(key, m.rotary_pct, 0, 1);
  if (keys.rotary_pct == nullptr && m.rotary_pct != 1)
    in.refuse(key, fmt::format("{}", m.rotary_pct),
              "this family applies RoPE to the whole head, as transformers does. Remove the key");
}

double required(const HfReader& rope, const char* key, const char* kind) {
  if (!rope.find(key)) rope.refuse(key, "absent", fmt::format("rope_type {} needs a number", kind));
  return rope.number(key, 1, 0, kMaxFactor);
}

// Returns the original context: a key of the file takes precedence over the one in rope_scaling.
// Phi-3 uses only the key of the file (default 4096).
int64_t first_context(const HfReader& in, const HfReader& rope, RopeScalingSupport support,
                      const ModelConfig& m) {
  constexpr const char* kKey = "original_max_position_embeddings";
  return in.size(kKey, support == RopeScalingSupport::kPhi3 ? 4096 : rope.size(kKey, m.context));
}

// The factor, which may be null for the kinds that then divide the context by the original one.
double read_factor(const HfReader& rope, const ModelConfig& m, const char* kind, bool derived) {
  if (derived && !rope.find("factor"))
    return std::max(1.0, static_cast<double>(m.context) /
                             static_cast<double>(m.rope_scaling.original_max_position_embeddings));
  required(rope, "factor", kind);
  return rope.number("factor", 1, 1, kMaxFactor);
}

// The factor of cosines and sines; 0 where the file leaves it to the kind.
double read_attention(const HfReader& rope) {
  return rope.find("attention_factor") ? rope.number("attention_factor", 1, kMinFactor, kMaxFactor)
                                       : 0;
}

void read_llama3(const HfReader& in, const HfReader& rope, ModelConfig& m) {
  RopeScalingConfig& s = m.rope_scaling;
  s.factor = read_factor(rope, m, "llama3", false);
  s.low_freq_factor = required(rope, "low_freq_factor", "llama3");
  s.high_freq_factor = required(rope, "high_freq_factor", "llama3");
  s.original_max_position_embeddings = first_context(in, rope, RopeScalingSupport::kAll, m);
  if (s.high_freq_factor <= s.low_freq_factor)
    rope.refuse("high_freq_factor", fmt::format("{}", s.high_freq_factor),
                fmt::format("expected more than low_freq_factor = {}", s.low_freq_factor));
}

void read_yarn(const HfReader& in, const HfReader& rope, ModelConfig& m) {
  RopeScalingConfig& s = m.rope_scaling;
  s.original_max_position_embeddings = first_context(in, rope, RopeScalingSupport::kAll, m);
  s.factor = read_factor(rope, m, "yarn", rope.is_null("factor"));
  const auto bound = [&](const char* key, double otherwise) {
    const double x = rope.number(key, otherwise, 0, kMaxFactor);
    return x > 0 ? x : otherwise;  // transformers treats 0 as absent
  };
  s.beta_slow = bound("beta_slow", s.beta_slow);
  s.beta_fast = bound("beta_fast", s.beta_fast);
  if (s.beta_fast <= s.beta_slow)
    rope.refuse("beta_fast", fmt::format("{}", s.beta_fast),
                fmt::format("expected more than beta_slow = {}", s.beta_slow));
  // null counts as false here, unlike an absent key.
  s.truncate = !rope.is_null("truncate") && rope.get<bool>("truncate", true);
  s.attention_factor = read_attention(rope);
  s.mscale = rope.number("mscale", 0, 0, kMaxFactor);
  s.mscale_all_dim = rope.number("mscale_all_dim", 0, 0, kMaxFactor);
}

std::vector<double> read_dividers(const HfReader& rope, const char* key, const ModelConfig& m) {
  const Tree* const list = rope.find(key);
  if (!list || !list->as_list())
    rope.refuse(key, list ? "not a list" : "absent", "rope_type longrope needs a list of numbers");
  const auto factors = rope.get<std::vector<double>>(key, {});
  if (std::ssize(factors) != rotated_dims(m) / 2)
    rope.refuse(key, fmt::format("a list of {}", factors.size()),
                fmt::format("expected {} numbers, one per pair of rotated dimensions",
                            rotated_dims(m) / 2));
  for (const double x : factors)
    if (!(x >= kMinFactor && x <= kMaxFactor))
      rope.refuse(key, fmt::format("a list with {}", x),
                  fmt::format("expected numbers from {} to {}", kMinFactor, kMaxFactor));
  return factors;
}

void read_longrope(const HfReader& in, const HfReader& rope, RopeScalingSupport support,
                   ModelConfig& m) {
  RopeScalingConfig& s = m.rope_scaling;
  s.original_max_position_embeddings = first_context(in, rope, support, m);
  s.factor = read_factor(rope, m, "longrope", true);
  s.attention_factor = read_attention(rope);
  s.short_factor = read_dividers(rope, "short_factor", m);
  s.long_factor = read_dividers(rope, "long_factor", m);
}

Tree numbers(const std::vector<double>& list) {
  Tree out = Tree::list();
  for (const double x : list) out.push(Tree(x));
  return out;
}

}  // namespace

Tree rope_scaling_tree(const RopeScalingConfig& s) {
  const bool dynamic = s.rope_type == RopeType::kDynamic && s.factor != 1;
  const bool has_magnitude = s.rope_type == RopeType::kYarn && s.attention_factor > 0;
  if (!s.scales() && !dynamic && !has_magnitude) return {};
  Tree out = Tree::object();
  out.set("rope_type", Tree(name_of_entry(s.rope_type)));
  switch (s.rope_type) {
    case RopeType::kLlama3:
      out.set("factor", Tree(s.factor));
      out.set("low_freq_factor", Tree(s.low_freq_factor));
      out.set("high_freq_factor", Tree(s.high_freq_factor));
      out.set("original_max_position_embeddings", Tree(s.original_max_position_embeddings));
      break;
    case RopeType::kLinear:
    case RopeType::kDynamic:
      out.set("factor", Tree(s.factor));
      break;
    case RopeType::kYarn:
      out.set("factor", Tree(s.factor));
      out.set("beta_slow", Tree(s.beta_slow));
      out.set("beta_fast", Tree(s.beta_fast));
      out.set("original_max_position_embeddings", Tree(s.original_max_position_embeddings));
      out.set("truncate", Tree(s.truncate));
      if (s.mscale > 0) out.set("mscale", Tree(s.mscale));
      if (s.mscale_all_dim > 0) out.set("mscale_all_dim", Tree(s.mscale_all_dim));
      break;
    case RopeType::kLongrope:
      out.set("factor", Tree(s.factor));
      out.set("original_max_position_embeddings", Tree(s.original_max_position_embeddings));
      out.set("short_factor", numbers(s.short_factor));
      out.set("long_factor", numbers(s.long_factor));
      break;
  }
  if (s.attention_factor > 0) out.set("attention_factor", Tree(s.attention_factor));
  return out;
}

void read_rope_scaling(const HfReader& in, const HfReader& rope, RopeScalingSupport support,
                       ModelConfig& m) {
  for (const char* layers : {"full_attention", "sliding_attention"})
    if (rope.find(layers))
      rope.refuse(
          layers, "given",
          "all layers of this family use the same RoPE parameters. Move the entries of this "
          "object one level up");
  // Old files call the kind `type`, new ones `rope_type`.
  const auto old = rope.get<std::string>("type", "default");
  auto kind = rope.get<std::string>("rope_type", old);
  if (support == RopeScalingSupport::kPhi3 && (kind == "su" || kind == "yarn")) kind = "longrope";
  if (kind == "default") return;
  const std::tuple<const char*, RopeType, bool> kinds[] = {
      {"llama3", RopeType::kLlama3, support == RopeScalingSupport::kAll},
      {"linear", RopeType::kLinear, support == RopeScalingSupport::kAll},
      {"dynamic", RopeType::kDynamic, support == RopeScalingSupport::kAll},
      {"yarn", RopeType::kYarn, support == RopeScalingSupport::kAll},
      {"longrope", RopeType::kLongrope, support != RopeScalingSupport::kUnscaled}};
  std::string computed = "default";
  for (const auto& [name, entry, computes] : kinds) {
    if (!computes) continue;
    computed += fmt::format(", {}", name);
    if (kind != name) continue;
    m.rope_scaling.rope_type = entry;
    switch (entry) {
      case RopeType::kLlama3:
        return read_llama3(in, rope, m);
      case RopeType::kLinear:
        m.rope_scaling.factor = read_factor(rope, m, "linear", false);
        return;
      case RopeType::kDynamic:
        m.rope_scaling.factor = read_factor(rope, m, "dynamic", false);
        m.rope_scaling.original_max_position_embeddings = m.context;
        return;
      case RopeType::kYarn:
        return read_yarn(in, rope, m);
      case RopeType::kLongrope:
        return read_longrope(in, rope, support, m);
    }
  }
  rope.refuse("rope_type", kind,
              fmt::format("Tessera computes {} in this family. A model that was trained without "
                          "scaling works up to its context when this key is removed",
                          computed));
}

void read_rotary(const HfReader& in, RotaryKeys keys, RopeScalingSupport support, ModelConfig& m) {
  m.rope_theta = in.number(keys.theta, m.rope_theta, 1, kMaxBase);
  if (keys.rotary_pct != nullptr) read_rotary_pct(in, keys.rotary_pct, keys, m);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!in.find(key)) continue;
    const HfReader rope = in.object(key);
    if (rope.empty()) continue;
    m.rope_theta = rope.number("rope_theta", m.rope_theta, 1, kMaxBase);
    read_rotary_pct(rope, "partial_rotary_factor", keys, m);
    read_rope_scaling(in, rope, support, m);
    break;  // if both are given, rope_parameters is ignored
  }
  if (const int64_t turned = rotated_dims(m); turned % 2 != 0 || turned == 0)
    in.refuse(
        keys.rotary_pct != nullptr ? keys.rotary_pct : "head_dim", fmt::format("{}", m.rotary_pct),
        fmt::format(
            "RoPE rotates {} of {} dimensions of a head, expected an even number of 2 or more",
            turned, m.head_size()));
}

void write_rotary(const ModelConfig& m, Tree& out) {
  out.set("rope_theta", Tree(m.rope_theta));
  out.set("rope_scaling", rope_scaling_tree(m.rope_scaling));
}

int64_t read_used_window(const HfReader& in, int64_t otherwise) {
  if (!in.get<bool>("use_sliding_window", false)) return 0;
  if (in.is_null("sliding_window")) return 0;
  return in.find("sliding_window") ? in.size("sliding_window", otherwise) : otherwise;
}

void read_windows(const HfReader& in, int64_t window, const std::function<bool(int64_t)>& slides,
                  ModelConfig& m) {
  std::vector<std::string> types;
  if (in.find("layer_types")) {
    types = in.get<std::vector<std::string>>("layer_types", {});
    if (std::ssize(types) != m.layers)
      in.refuse("layer_types", fmt::format("a list of {}", types.size()),
                fmt::format("num_hidden_layers is {}", m.layers));
    for (const std::string& t : types)
      if (t != "full_attention" && t != "sliding_attention")
        in.refuse("layer_types", t, "Tessera computes full_attention and sliding_attention");
  }
  m.window_layers.clear();
  for (int64_t l = 0; l < m.layers; ++l)
    if (types.empty() ? slides(l) : types[l] == "sliding_attention") m.window_layers.push_back(l);
  m.window = m.window_layers.empty() ? 0 : window;
  if (window == 0 && !m.window_layers.empty())
    in.refuse(
        "sliding_window", "not in use",
        fmt::format("layer {} has sliding attention, which needs a window", m.window_layers[0]));
  if (std::ssize(m.window_layers) == m.layers) m.window_layers.clear();  // all of them
}

void read_last_windows(const HfReader& in, ModelConfig& m) {
  const int64_t window = read_used_window(in, 4096), first = in.count("max_window_layers", 28);
  read_windows(
      in, window, [&](int64_t layer) { return window > 0 && layer >= first; }, m);
}

bool slides(const ModelConfig& m, int64_t layer) {
  return m.window > 0 &&
         (m.window_layers.empty() ||
          std::binary_search(m.window_layers.begin(), m.window_layers.end(), layer));
}

void write_windows(const ModelConfig& m, Tree& out) {
  out.set("sliding_window", m.window > 0 ? Tree(m.window) : Tree());
  Tree types = Tree::list();
  for (int64_t l = 0; l < m.layers; ++l)
    types.push(Tree(std::string(slides(m, l) ? "sliding_attention" : "full_attention")));
  out.set("layer_types", std::move(types));
}

}  // namespace tessera::model
