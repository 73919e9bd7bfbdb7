// Range and divisibility checks of a model's sizes.
//
// Every check names the key, the value found and the values possible. The order matters: a check
// may divide by a size that an earlier one has proven to be positive. Bounds of sizes are there so
// that no product of them overflows later; the last check (check_weights) limits all of them
// together.
#include "model/check_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "model/family.h"
#include "model/hf_names.h"
#include "model/presets.h"

namespace tessera::model {
namespace {

constexpr double kLeastEpsilon = 1e-37;  // smallest normal f32: 1.2e-38

constexpr int64_t kMostDepth = 16;  // published models have 1

constexpr int64_t kMostWidth = int64_t{1} << 24;  // widths times layers fit in 64 bits

template <class... A>
[[noreturn]] void fail(std::string_view key, fmt::format_string<A...> format, A&&... a) {
  throw Error("model.{} {}", key, fmt::format(format, std::forward<A>(a)...));
}

void at_least(std::string_view key, int64_t value, int64_t least) {
  if (value < least) fail(key, "= {}, expected {} or more", value, least);
}

void between(std::string_view key, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) fail(key, "= {}, expected {} to {}", value, least, most);
}

void within(std::string_view key, double value, double least, double most) {
  if (!(value >= least && value <= most))
    fail(key, "= {}, expected a value in [{:g}, {:g}]", value, least, most);
}

void check_heads(const ModelConfig& m) {
  between("head_width", m.head_width, 0, kMostWidth);
  if (m.head_width == 0 && !m.latent.exists() && m.hidden % m.heads != 0)
    fail("heads", "= {} does not divide hidden = {}. Possible here: {}.", m.heads, m.hidden,
         fmt::join(divisors(m.hidden), ", "));
  if (rule_of(m.family).supports_gqa) {
    if (m.heads % m.kv_heads != 0)
      fail("kv_heads", "= {} does not divide heads = {}. Possible here: {}.", m.kv_heads, m.heads,
           fmt::join(divisors(m.heads), ", "));
  } else if (m.kv_heads != m.heads) {
    fail("kv_heads", "= {}, but family {} requires kv_heads = heads = {}. Remove it.", m.kv_heads,
         name_of_entry(m.family), m.heads);
  }
}

void check_latent(const ModelConfig& m) {
  const LatentConfig& a = m.latent;
  between("latent.key_value_rank", a.key_value_rank, rule_of(m.family).latent ? 1 : 0, kMostWidth);
  if (a.exists() && !rule_of(m.family).latent)
    fail("latent.key_value_rank", "= {}, but family {} has no latent attention. Remove it.",
         a.key_value_rank, name_of_entry(m.family));
  if (!a.exists()) {
    if (a != LatentConfig())
      fail("latent", "has widths or a query_rank, but key_value_rank = 0. Remove them, or set it.");
    return;
  }
  between("latent.query_rank", a.query_rank, 0, kMostWidth);
  between("latent.nope_width", a.nope_width, 0, kMostWidth);
  between("latent.rope_width", a.rope_width, 2, kMostWidth);
  if (a.rope_width % 2 != 0)
    fail("latent.rope_width", "= {}, expected an even number", a.rope_width);
  between("latent.value_width", a.value_width, 1, a.key_width());
  if (m.head_width != 0)
    fail("head_width", "= {}, but latent attention has widths of its own. Remove it.",
         m.head_width);
  if (m.rotary_pct != 1)
    fail("rotary_pct",
         "= {}, but latent.rope_width has the dimensions that RoPE rotates. Remove it.",
         m.rotary_pct);
  if (!m.no_rope_layers.empty())
    fail("no_rope_layers", "is given, but all layers of latent attention have RoPE. Remove it.");
}

void check_encoder(const ModelConfig& m) {
  const bool encodes = rule_of(m.family).has_encoder;
  between("encoder_layers", m.encoder_layers, encodes ? 1 : 0, kMostLayers);
  if (!encodes && m.encoder_layers > 0)
    fail("encoder_layers", "= {}, but family {} has no encoder. Leave it out.", m.encoder_layers,
         name_of_entry(m.family));
  if (!encodes) return;
  if (m.relative_buckets < 4 || m.relative_buckets % 4 != 0)
    fail("relative_buckets", "= {}, expected a multiple of 4", m.relative_buckets);
  if (m.relative_distance <= m.relative_buckets / 2)
    fail("relative_distance", "= {}, expected more than relative_buckets / 2 = {}",
         m.relative_distance, m.relative_buckets / 2);
  between("relative_distance", m.relative_distance, 1, kMostContext);
}

void check_dividers(std::string_view key, const std::vector<double>& list, int64_t pairs) {
  if (std::ssize(list) != pairs)
    fail(key, "has {} numbers, expected {}: one per pair of rotated dimensions of a head",
         list.size(), pairs);
  for (const double x : list) within(key, x, 1e-6, 1e6);
}

void check_rope_scaling(const ModelConfig& m) {
  const RopeScalingConfig& s = m.rope_scaling;
  within("rope_scaling.factor", s.factor, 1, 1e9);
  within("rope_scaling.low_freq_factor", s.low_freq_factor, 1e-9, 1e9);
  within("rope_scaling.high_freq_factor", s.high_freq_factor, 1e-9, 1e9);
  if (s.high_freq_factor <= s.low_freq_factor)
    fail("rope_scaling.high_freq_factor", "= {}, expected more than low_freq_factor = {}",
         s.high_freq_factor, s.low_freq_factor);
  within("rope_scaling.beta_slow", s.beta_slow, 1e-9, 1e9);
  within("rope_scaling.beta_fast", s.beta_fast, 1e-9, 1e9);
  if (s.beta_fast <= s.beta_slow)
    fail("rope_scaling.beta_fast", "= {}, expected more than beta_slow = {}", s.beta_fast,
         s.beta_slow);
  between("rope_scaling.original_max_position_embeddings", s.original_max_position_embeddings, 1,
          kMostContext);
  const bool longrope = s.rope_type == RopeType::kLongrope;
  const int64_t pairs = longrope && rule_of(m.family).has_rope ? rotated_dims(m) / 2 : 0;
  check_dividers("rope_scaling.short_factor", s.short_factor, pairs);
  check_dividers("rope_scaling.long_factor", s.long_factor, pairs);
  if (s.attention_factor > 0 && s.rope_type != RopeType::kYarn && !longrope)
    fail("rope_scaling.attention_factor", "= {} is not supported by rope_type {}. Remove it.",
         s.attention_factor, name_of_entry(s.rope_type));
  if (s.rope_type == RopeType::kDynamic && s.factor != 1 &&
      m.context > s.original_max_position_embeddings)
    fail("context",
         "= {}, but rope_scaling.rope_type = dynamic changes the frequencies in sequences longer "
         "than rope_scaling.original_max_position_embeddings = {}, which is not supported. Set "
         "context to this or less.",
         m.context, s.original_max_position_embeddings);
}

void check_rotary(const ModelConfig& m) {
  within("rotary_pct", m.rotary_pct, 0, 1);
  const int64_t turned = rotated_dims(m);
  if (rule_of(m.family).has_rope && (turned % 2 != 0 || turned == 0))
    fail("rotary_pct",
         "= {} rotates {} of a head's {} dimensions, expected an even number of 2 or more.",
         m.rotary_pct, turned, m.head_size());
  within("rope_theta", m.rope_theta, 1e-3, 1e15);
  check_rope_scaling(m);
}

void check_numbers(const ModelConfig& m, std::string_view key, const std::vector<int64_t>& list) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] < 0 || list[i] >= m.layers || (i > 0 && list[i] <= list[i - 1]))
      fail(key, "= [{}], expected numbers of layers in rising order, each in [0, {})",
           fmt::join(list, ", "), m.layers);
}

void check_kinds_of_layers(const ModelConfig& m) {
  const ModelFamily& family = rule_of(m.family);
  check_numbers(m, "no_rope_layers", m.no_rope_layers);
  if (!m.no_rope_layers.empty() && !family.has_rope)
    fail("no_rope_layers", "= [{}], but family {} has no rotary embedding. Remove it.",
         fmt::join(m.no_rope_layers, ", "), name_of_entry(m.family));
  check_numbers(m, "wide_layers", m.wide_layers);
  if (!m.wide_layers.empty() && family.has_encoder)
    fail("wide_layers", "= [{}] is not supported by family {}. Remove it.",
         fmt::join(m.wide_layers, ", "), name_of_entry(m.family));
  if (m.wide_layers.empty() ? m.wide_feed_forward != 0 : m.wide_feed_forward < 1)
    fail("wide_feed_forward", "= {} and wide_layers = [{}], expected both or neither",
         m.wide_feed_forward, fmt::join(m.wide_layers, ", "));
}

void check_router(const ModelConfig& m) {
  const RouterConfig& r = m.router;
  between("router.groups", r.groups, 1, m.experts);
  if (m.experts % r.groups != 0)
    fail("router.groups", "= {} does not divide experts = {}. Possible here: {}.", r.groups,
         m.experts, fmt::join(divisors(m.experts), ", "));
  between("router.groups_chosen", r.groups_chosen, 1, r.groups);
  if (m.experts_per_token > m.experts / r.groups * r.groups_chosen)
    fail("experts_per_token", "= {}, expected at most {} ({} chosen groups of {} experts)",
         m.experts_per_token, m.experts / r.groups * r.groups_chosen, r.groups_chosen,
         m.experts / r.groups);
  within("router.scale", r.scale, 1e-6, 1e6);
  if (const double c = r.capacity_factor; c != 0 && !(c >= 1e-6 && c <= 1e6))
    fail("router.capacity_factor",
         "= {}, expected 0 (no token is dropped) or a value in [{:g}, {:g}]", c, 1e-6, 1e6);
}

void check_experts(const ModelConfig& m) {
  const ModelFamily& family = rule_of(m.family);
  between("experts", m.experts, 0, kMostWidth);
  between("expert_feed_forward", m.expert_feed_forward, 0, kMostWidth);
  between("shared_feed_forward", m.shared_feed_forward, 0, kMostWidth);
  check_numbers(m, "dense_layers", m.dense_layers);
  if (m.experts > 0 && !family.has_experts)
    fail("experts", "= {}, but family {} has no experts. Remove it.", m.experts,
         name_of_entry(m.family));
  if (m.experts > 0) {
    between("experts_per_token", m.experts_per_token, 1, m.experts);
    return check_router(m);
  }
  if (m.experts_per_token != 0 || m.expert_feed_forward != 0 || m.shared_feed_forward != 0 ||
      !m.dense_layers.empty())
    fail("experts",
         "= 0, but experts_per_token, expert_feed_forward, shared_feed_forward or dense_layers is "
         "given. Remove these keys, or set experts.");
  for (const auto& [key, value] : {std::pair{"router.balance_loss", m.router.balance_loss},
                                   std::pair{"router.z_loss", m.router.z_loss},
                                   std::pair{"router.capacity_factor", m.router.capacity_factor}})
    if (value != 0)
      fail(key, "= {}, but the model has no experts. Remove it, or set experts.", value);
}

// Windows, soft caps and the scale of scores, which attention of an encoder does not have.
void check_attention(const ModelConfig& m) {
  between("window", m.window, 0, kMostContext);
  check_numbers(m, "window_layers", m.window_layers);
  if (!m.window_layers.empty() && m.window == 0)
    fail("window_layers", "= [{}], but window = 0. Set a window.",
         fmt::join(m.window_layers, ", "));
  within("window_rope_theta", m.window_rope_theta, 0, 1e15);
  if (m.window_rope_theta > 0 && (m.window == 0 || !rule_of(m.family).has_rope))
    fail("window_rope_theta", "= {}, but no layer has a window and rotary embeddings. Remove it.",
         m.window_rope_theta);
  for (const auto& [key, value] : {std::pair{"attention_scalar", m.attention_scalar},
                                   std::pair{"attention_soft_cap", m.attention_soft_cap},
                                   std::pair{"logit_soft_cap", m.logit_soft_cap}}) {
    if (value != 0) within(key, value, 1e-6, 1e9);
    if (value != 0 && rule_of(m.family).has_encoder)
      fail(key, "= {} is not supported by family {}. Remove it.", value, name_of_entry(m.family));
  }
  if (m.window > 0 && rule_of(m.family).has_encoder)
    fail("window", "= {} is not supported by family {}. Remove it.", m.window,
         name_of_entry(m.family));
}

void check_mtp(const ModelConfig& m) {
  between("mtp_depth", m.mtp_depth, 0, kMostDepth);
  if (m.mtp_depth > 0 && !rule_of(m.family).may_have_mtp)
    fail("mtp_depth", "= {}, but family {} has no multi-token prediction. Remove it.", m.mtp_depth,
         name_of_entry(m.family));
}

void check_mup(const ModelConfig& m) {
  between("mup.base", m.mup.base, 0, kMostWidth);
  between("mup.base_head_width", m.mup.base_head_width, 0, kMostWidth);
  if (m.mup.base == 0 && m.mup.base_head_width > 0)
    fail("mup.base_head_width", "= {}, but mup.base = 0. Set mup.base.", m.mup.base_head_width);
  if (m.mup.base > 0 && rule_of(m.family).has_encoder)
    fail("mup.base", "= {} is not supported by family {}. Remove it.", m.mup.base,
         name_of_entry(m.family));
}

// Limits the model so that every count of elements or bytes fits in 64 bits. The estimate is made
// in double, which cannot overflow.
void check_weights(const ModelConfig& m) {
  const auto layers = static_cast<double>(m.all_layers());
  const auto hidden = static_cast<double>(m.hidden);
  const auto experts = static_cast<double>(m.experts);
  const auto wide = static_cast<double>(m.wide_feed_forward);
  const double inner = std::max(static_cast<double>(m.feed_forward), wide) +
                       static_cast<double>(m.shared_feed_forward) +
                       experts * (std::max(static_cast<double>(expert_width(m)), wide) + 1);
  const double heads = static_cast<double>(m.heads) * static_cast<double>(m.head_size());
  const double vocabulary =
      static_cast<double>(m.vocabulary) + static_cast<double>(m.vocabulary_multiple);
  const LatentConfig& a = m.latent;
  const auto ranks = static_cast<double>(a.query_rank + a.key_value_rank + a.rope_width);
  const auto ahead = static_cast<double>(m.mtp_depth);
  const double numbers = (layers + ahead) * hidden * (4 * heads + 3 * inner) +
                         (layers + ahead) * ranks * (hidden + 2 * heads) +
                         2 * ahead * hidden * hidden +
                         (2 * vocabulary + static_cast<double>(m.context)) * hidden +
                         heads * static_cast<double>(m.relative_buckets);
  if (numbers > kMostNumbers)
    fail("hidden", "= {} and the other sizes make {:.1e} weights, expected {:.0e} at most",
         m.hidden, numbers, kMostNumbers);
}

}  // namespace

void check_model(const ModelConfig& m) {
  between("layers", m.layers, 1, kMostLayers);
  at_least("hidden", m.hidden, 1);
  at_least("heads", m.heads, 1);
  at_least("kv_heads", m.kv_heads, 1);
  at_least("feed_forward", m.feed_forward, 1);
  at_least("vocabulary", m.vocabulary, 0);
  between("vocabulary_multiple", m.vocabulary_multiple, 1, kMostWidth);
  between("context", m.context, 1, kMostContext);
  check_latent(m);
  check_heads(m);
  check_encoder(m);
  check_rotary(m);
  check_kinds_of_layers(m);
  check_experts(m);
  check_attention(m);
  check_mtp(m);
  check_mup(m);
  within("norm_epsilon", m.norm_epsilon, kLeastEpsilon, 1);
  check_weights(m);
}

bool changes_model(std::string_view key, Family family) {
  const ModelFamily& rule = rule_of(family);
  if (key.starts_with("rotary") || key.starts_with("rope") || key == "window_rope_theta")
    return rule.has_rope;
  if (key.starts_with("relative") || key == "scaled_head") return rule.has_encoder;
  if (key == "parallel_residual") return family == Family::kNeox;
  if (key == "gelu") return rule.chooses_gelu;
  for (const std::string_view other :
       {"preset", "vocabulary_multiple", "context", "dropout", "attention_dropout",
        "embedding_dropout", "init", "output_init", "init_std", "router.balance_loss",
        "router.z_loss", "router.bias_rate", "router.capacity_factor"})
    if (key == other) return false;
  return true;
}

// Maps configurations that compute the same to one: a head width that is hidden / heads is left
// out, a window without a RoPE of its own gets that of the other layers, and so on. A resumed run
// compares these, so a run file may spell a default.
ModelConfig comparable(ModelConfig m) {
  derive_sizes(m);
  if (m.heads > 0 && m.head_width == m.hidden / m.heads) m.head_width = 0;
  if (m.heads > 0 && m.attention_scalar == static_cast<double>(m.head_size()))
    m.attention_scalar = 0;
  if (m.window > 0 && m.window_rope_theta == 0 && !m.rope_scaling.scales())
    m.window_rope_theta = m.rope_theta;
  if (!m.rope_scaling.scales() && m.rope_scaling.attention_factor == 0) m.rope_scaling = {};
  if (m.width_ratio() == 1 &&
      (m.mup.base_head_width == 0 || m.mup.base_head_width == m.head_size()))
    m.mup = {};
  if (m.experts > 0) m.expert_feed_forward = expert_width(m);
  if (m.experts > 0 && m.dense_layers.empty()) m.feed_forward = m.expert_feed_forward;
  m.preset.clear();
  return m;
}

std::vector<int64_t> divisors(int64_t n) {
  constexpr int64_t kTried = 100'000;
  constexpr size_t kShown = 24;
  std::vector<int64_t> out;
  // Two limits, since a hostile size could have a very long list or take long to factor.
  for (int64_t d = 1; d <= std::min(n, kTried) && out.size() < kShown; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

}  // namespace tessera::model
