// Range and divisibility checks of a model's sizes.
#include "model/check_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "model/family.h"

namespace tessera::model {
namespace {

constexpr double kLeastEpsilon = 1e-37;  // smallest normal f32: 1.2e-38

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
  if (m.head_width == 0 && m.hidden % m.heads != 0)
    fail("heads", "= {} does not divide hidden = {}. Possible here: {}.", m.heads, m.hidden,
         fmt::join(divisors(m.hidden), ", "));
  if (rule_of(m.family).groups_heads) {
    if (m.heads % m.kv_heads != 0)
      fail("kv_heads", "= {} does not divide heads = {}. Possible here: {}.", m.kv_heads, m.heads,
           fmt::join(divisors(m.heads), ", "));
  } else if (m.kv_heads != m.heads) {
    fail("kv_heads", "= {}, but family {} requires kv_heads = heads = {}. Remove it.", m.kv_heads,
         name_of_entry(m.family), m.heads);
  }
}

void check_encoder(const ModelConfig& m) {
  const bool encodes = rule_of(m.family).encodes;
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

void check_rotary(const ModelConfig& m) {
  within("rotary_pct", m.rotary_pct, 0, 1);
  const auto turned = static_cast<int64_t>(m.rotary_pct * static_cast<double>(m.head_size()));
  if (rule_of(m.family).turns && (turned % 2 != 0 || turned == 0))
    fail("rotary_pct",
         "= {} turns {} of a head's {} dimensions, expected an even number of 2 or more.",
         m.rotary_pct, turned, m.head_size());
  within("rope_theta", m.rope_theta, 1e-3, 1e15);
  const RopeScaling& s = m.rope_scaling;
  within("rope_scaling.factor", s.factor, 1, 1e9);
  within("rope_scaling.low_freq_factor", s.low_freq_factor, 1e-9, 1e9);
  within("rope_scaling.high_freq_factor", s.high_freq_factor, 1e-9, 1e9);
  if (s.high_freq_factor <= s.low_freq_factor)
    fail("rope_scaling.high_freq_factor", "= {}, expected more than low_freq_factor = {}",
         s.high_freq_factor, s.low_freq_factor);
  at_least("rope_scaling.original_max_position_embeddings", s.original_max_position_embeddings, 1);
}

void check_numbers(const ModelConfig& m, std::string_view key, const std::vector<int64_t>& list) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] < 0 || list[i] >= m.layers || (i > 0 && list[i] <= list[i - 1]))
      fail(key, "= [{}], expected numbers of layers in rising order, each in [0, {})",
           fmt::join(list, ", "), m.layers);
}

void check_kinds_of_layers(const ModelConfig& m) {
  const FamilyRule& family = rule_of(m.family);
  check_numbers(m, "no_rope_layers", m.no_rope_layers);
  if (!m.no_rope_layers.empty() && !family.turns)
    fail("no_rope_layers", "= [{}], but family {} has no rotary embedding. Remove it.",
         fmt::join(m.no_rope_layers, ", "), name_of_entry(m.family));
  check_numbers(m, "wide_layers", m.wide_layers);
  if (!m.wide_layers.empty() && family.encodes)
    fail("wide_layers", "= [{}] is not supported by family {}. Remove it.",
         fmt::join(m.wide_layers, ", "), name_of_entry(m.family));
  if (m.wide_layers.empty() ? m.wide_feed_forward != 0 : m.wide_feed_forward < 1)
    fail("wide_feed_forward", "= {} and wide_layers = [{}], expected both or neither",
         m.wide_feed_forward, fmt::join(m.wide_layers, ", "));
}

// Limits the model so that every count of elements or bytes fits in 64 bits. The estimate is made
// in double, which cannot overflow.
void check_weights(const ModelConfig& m) {
  const auto layers = static_cast<double>(m.all_layers());
  const auto hidden = static_cast<double>(m.hidden);
  const auto inner = static_cast<double>(std::max(m.feed_forward, m.wide_feed_forward));
  const double heads = static_cast<double>(m.heads) * static_cast<double>(m.head_size());
  const double vocabulary =
      static_cast<double>(m.vocabulary) + static_cast<double>(m.vocabulary_multiple);
  const double numbers = layers * hidden * (4 * heads + 3 * inner) +
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
  check_heads(m);
  check_encoder(m);
  check_rotary(m);
  check_kinds_of_layers(m);
  within("norm_epsilon", m.norm_epsilon, kLeastEpsilon, 1);
  check_weights(m);
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
