// Compares the values that a layout computes with those of one rank, by their digests.
//
// A digest is a set of random projections of a value (value_record.cc). It is linear, so the
// digests of shards add up to the digest of the whole value, and the distance of two digests
// estimates the norm of the difference of the values. A value is compared per copy (one per
// coordinate on the axes over which it is replicated), so that a wrong replica is found and
// located. The first difference in the order of computation is reported, since later values depend
// on it.
#include "train/compare_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "ir/names.h"

namespace tessera::train {
namespace {

// The record of one rank, which the values of the layout should equal.
struct Wanted {
  int64_t order = 0;
  const ValueRecord* record = nullptr;
};

// One value on the ranks of the layout: the digest of each copy, which is the sum over its shards.
struct Found {
  std::string told;
  int64_t order = 0;                                   // among the records of its rank
  std::map<std::vector<int64_t>, ValueDigest> copies;  // by coordinates on the axes of copies
  std::vector<AxisKind> axes;                          // the axes of copies
};

// Returns the axes over which ranks hold the same bytes. A pipeline stage that has a value has all
// of it, unless every rank owns a shard of the value.
std::vector<AxisKind> copy_axes(const Mesh& mesh, const Sharding& place) {
  std::vector<AxisKind> axes;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (mesh.size[a] > 1 && (place.place[a] == kReplicated || place.place[a] == kShared))
      axes.push_back(a);
  return axes;
}

void add(ValueDigest& sum, const ValueDigest& d) {
  for (size_t k = 0; k < kDigestSums; ++k) sum.sums[k] += d.sums[k];
  sum.squares += d.squares;
  sum.elements += d.elements;
}

// Returns the estimated norm of the difference: the mean over the projections estimates its square.
double distance(const ValueDigest& a, const ValueDigest& b) {
  double squares = 0;
  for (size_t k = 0; k < kDigestSums; ++k)
    squares += (a.sums[k] - b.sums[k]) * (a.sums[k] - b.sums[k]);
  return std::sqrt(squares / kDigestSums);
}

bool is_finite(const ValueDigest& d) {
  return std::all_of(d.sums.begin(), d.sums.end(), [](double x) { return std::isfinite(x); });
}

// A state value that changes when a weight is updated, and its change as a share of the weight's.
struct Moved {
  std::string_view weight;
  double share = 0;
};

// Returns the share of a weight ("1|state|layer0.attn.qkv.weight") and of its moving average
// ("1|state|layer0.attn.qkv.weight|average"); for other keys, a share of 0.
Moved moved_by_update(std::string_view key, double average_share) {
  constexpr std::string_view kState = "|state|", kAverage = "|average";
  const size_t state = key.find(kState);
  if (state == std::string_view::npos) return {};
  const std::string_view name = key.substr(state + kState.size());
  if (name.ends_with(kAverage))
    return {name.substr(0, name.size() - kAverage.size()), average_share};
  return {name, name.find('|') == std::string_view::npos ? 1.0 : 0.0};
}

bool is_kept(const std::string& key) {
  return key.find("|read|") != std::string::npos || key.find("|gradient|") != std::string::npos ||
         key.find("|state|") != std::string::npos;
}

bool is_moment(const std::string& key) {
  return key.find("|state|") != std::string::npos &&
         (key.ends_with("|moment1") || key.ends_with("|moment2"));
}

// Returns true for a value made by a GEMM with a weight of an adapter. The second weight of an
// adapter starts at zero, so after an update it is a sum of gradients, and its relative error is
// theirs.
bool is_adapter_product(const std::string& key) { return key.find(".lora_") != std::string::npos; }

// Returns true for a value that consists of updates: a weight that starts at zero, which are biases
// and the second matrices of adapters, or the result of an op of such a weight.
bool consists_of_updates(const std::string& key) {
  const bool updated = !key.starts_with("1|") || key.find("|state|") != std::string::npos;
  return updated && (key.find("bias") != std::string::npos || is_adapter_product(key));
}

// Returns true for gradients of a router's scores and of the weights of experts' outputs. Each is a
// difference of nearly equal terms, as the gradient of a softmax is, so its relative error is a
// multiple of theirs.
bool is_router_gradient(const std::string& key) {
  const bool of_router = key.find(".router.") != std::string::npos ||
                         key.find("experts.weights.gradient") != std::string::npos;
  return of_router && (is_kept(key) || key.find("|backward|") != std::string::npos);
}

// Returns true for Muon's directions, before and after the iterations: sums of gradients, so their
// relative error is at least that of gradients.
bool is_direction(const std::string& key) { return key.find("|direction") != std::string::npos; }

// Returns the part of a key between step and micro-batch, without the number of the layer:
// "norm|forward|layer.norm1".
std::string kind_of(const std::string& key) {
  std::string kind = key.substr(key.find('|') + 1);
  kind = kind.substr(0, kind.rfind('|'));
  kind.erase(std::remove_if(kind.begin(), kind.end(), [](char c) { return c >= '0' && c <= '9'; }),
             kind.end());
  return kind;
}

class Comparison {
 public:
  Comparison(const RankRecords& one, std::span<const RankRecords> ranks, const ValueBounds& bounds)
      : bounds_(bounds) {
    for (const ValueRecord& r : one.records)
      if (counts(r)) wanted_.try_emplace(r.key, Wanted{std::ssize(wanted_), &r});
    for (const RankRecords& r : ranks) gather(r);
  }

  // Differences are sorted by the order of one rank, then by that of the layout.
  ValueComparison go() {
    for (const auto& [place, f] : found_) compare(place.first, f);
    look_for_missing();
    ValueComparison out;
    out.compared = compared_;
    out.largest = largest_;
    out.largest_of = largest_of_;
    if (differences_.empty()) return out;
    out.first = differences_.begin()->second;
    for (const auto& [key, w] : wanted_)
      out.first->equal_before += w.order < differences_.begin()->first.first && seen_.contains(key);
    return out;
  }

 private:
  // A key and its occurrence: the n-th record of a key on one rank corresponds to the n-th on the
  // others.
  using Place = std::pair<std::string, int64_t>;

  void gather(const RankRecords& rank) {
    std::map<std::string, int64_t> times;
    int64_t order = 0;
    for (const ValueRecord& r : rank.records) {
      Found& f = found_[{r.key, times[r.key]++}];
      if (f.told.empty()) {
        f.told = r.told;
        f.order = order++;
        f.axes = copy_axes(rank.mesh, r.place);
      }
      std::vector<int64_t> copy;
      for (const AxisKind a : f.axes) copy.push_back(rank.at.at[a]);
      add(f.copies[copy], r.digest);
      if (const size_t at = r.key.find("|read|weight|"); at != std::string::npos)
        weights_.try_emplace(r.key.substr(at + 13), axes_text(rank.mesh, r.place));
      seen_.insert(r.key);
      kinds_.insert(kind_of(r.key));
    }
  }

  void compare(const std::string& key, const Found& f) {
    const auto w = wanted_.find(key);
    if (w == wanted_.end()) return;
    ++compared_;
    const ValueDigest& right = w->second.record->digest;
    const bool of_gradients =
        is_kept(key) || is_adapter_product(key) || is_direction(key) || is_router_gradient(key);
    double bound = of_gradients ? bounds_.kept : bounds_.computed;
    if (is_router_gradient(key)) bound *= bounds_.router_scale;
    if (key.ends_with("|moment2")) bound *= 2;  // a square has twice the relative error
    // An update by the sign of a noise value moves an element by at most `signs`. Relative to the
    // norm of the value, that is signs * sqrt(elements) / norm if all elements differ.
    if (const Moved m = moved_by_update(key, bounds_.average_share); bounds_.signs && m.share > 0)
      bound += m.share * bounds_.signs(m.weight) *
               std::sqrt(static_cast<double>(right.elements) / right.squares);
    // An error e moves a moment over the middle between two codes with a probability of e /
    // distance, so the norm of all such changes is about sqrt(e * distance), or that of a single
    // one. Updates have the errors of the moments.
    if (const double d = bounds_.code_distance;
        d > 0 && (is_moment(key) || consists_of_updates(key)))
      bound += std::sqrt(bounds_.kept * d) + d / std::sqrt(static_cast<double>(right.elements));
    double worst = 0;
    std::vector<std::vector<int64_t>> wrong;
    for (const auto& [copy, digest] : f.copies) {
      // A skipped fp16 step may hold infinities on both sides; their digests cannot be compared.
      if (bounds_.overflows && !is_finite(digest) && !is_finite(right)) continue;
      const double gap = distance(digest, right) / std::sqrt(right.squares);
      // The second condition covers a value that is zero on both sides, where the gap is NaN.
      if (gap <= bound || distance(digest, right) == 0) {
        if (gap / bound > largest_) largest_ = gap / bound, largest_of_ = f.told;
        continue;
      }
      wrong.push_back(copy);
      worst = std::isfinite(gap) ? std::max(worst, gap) : std::numeric_limits<double>::infinity();
    }
    if (wrong.empty()) return;
    ValueDifference d{key, f.told, worst, {}, {}, 0};
    if (wrong.size() < f.copies.size()) d.ranks = ranks_text(f.axes, wrong);
    if (const size_t at = key.find("|gradient|"); at != std::string::npos)
      d.shared_over = weights_[key.substr(at + 10) + "|-1"];
    differences_.try_emplace({w->second.order, f.order}, std::move(d));
  }

  // Returns true if the record is compared. After an update with other signs, later steps differ.
  bool counts(const ValueRecord& r) const {
    if (bounds_.reroutes && r.key.find(".router.bias") != std::string::npos) return false;
    return !bounds_.signs || r.key.starts_with("1|");
  }

  static std::string axes_text(const Mesh& mesh, const Sharding& place) {
    std::string text;
    for (const AxisKind a : Enumerators<AxisKind>())
      if (place.place[a] == kShared && mesh.size[a] > 1)
        text += fmt::format("{}{}", text.empty() ? "" : " and ", name_of(a));
    return text;
  }

  // Names the coordinates that all wrong copies have in common.
  static std::string ranks_text(const std::vector<AxisKind>& axes,
                                const std::vector<std::vector<int64_t>>& wrong) {
    std::string text;
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto same = [&](const std::vector<int64_t>& c) { return c[i] == wrong[0][i]; };
      if (!std::all_of(wrong.begin(), wrong.end(), same)) continue;
      text +=
          fmt::format("{}{}={}", text.empty() ? "ranks with " : " ", name_of(axes[i]), wrong[0][i]);
    }
    return text.empty() ? "some ranks" : text;
  }

  // Reports missing values. A value that the ranks compute for some layers and micro-batches must
  // be computed for all.
  void look_for_missing() {
    for (const auto& [key, w] : wanted_) {
      if (seen_.contains(key) || !kinds_.contains(kind_of(key))) continue;
      differences_.try_emplace({w.order, -1},
                               ValueDifference{key,
                                               w.record->told + ", which no rank computes",
                                               std::numeric_limits<double>::infinity(),
                                               {},
                                               {},
                                               0});
    }
  }

  ValueBounds bounds_;
  std::map<std::string, Wanted> wanted_;
  std::map<Place, Found> found_;
  std::set<std::string> seen_, kinds_;
  std::map<std::string, std::string> weights_;  // name → axes over which it is shared
  std::map<std::pair<int64_t, int64_t>, ValueDifference> differences_;
  int64_t compared_ = 0;
  double largest_ = 0;
  std::string largest_of_;
};

}  // namespace

double gradient_rounding(const compile::CompileRequest& r) {
  const bool sums = r.options.grad_accum_dtype == compile::GradAccumDType::kWeight;
  if (r.precision == compile::Precision::kFp32 ||
      (!sums && r.options.grad_reduce_dtype == compile::GradReduceDType::kAccum))
    return 0;
  // Each addition to a sum, and each transfer to other ranks and back, rounds by at most half a
  // unit. Errors of random signs add up like a random walk, hence the square root.
  const double times = 2 + (sums ? static_cast<double>(r.microbatches) : 0);
  return (r.precision == compile::Precision::kFp16 ? 0x1p-12 : 0x1p-9) * std::sqrt(times);
}

namespace {

// A norm after a sublayer scales its rounded output, which is smaller than the hidden states in
// other families, to their size. Its rounding error grows with it. The factor is measured: 150
// correct layouts of 4 ranks reach at most 2.2 times the bound of other families, and in fp32,
// where the bound is the same for all, a third of it (tests/train/verify_ranks_test.cc).
double rounding_scale(model::Family family) {
  using enum model::Family;
  return family == kOlmo2 || family == kGemma2 || family == kGemma3 ? 4 : 1;
}

// A score that is rounded to 16 bits may route a token to another expert, which replaces its
// output by one of equal size: for a share s of the tokens a relative difference of sqrt(2 s).
// Returns the difference for one token, or for one in 1,000, in a micro-batch.
double routing_difference(const compile::CompileRequest& r) {
  if (r.model.experts == 0) return 0;
  const auto tokens = static_cast<double>(r.sequences * r.tokens);
  return std::sqrt(2 * std::max(1 / tokens, 1e-3));
}

bool any_policy(const compile::CompileRequest& r, const auto& is_one) {
  return is_one(r.optimizer) ||
         std::any_of(r.groups.begin(), r.groups.end(),
                     [&](const compile::OptimizerGroup& g) { return is_one(g.policy); });
}

// Returns true if an optimizer of the run computes in bf16. A sum that differs in its last bit then
// changes what it rounds.
bool optimizes_in_bf16(const compile::CompileRequest& r) {
  return any_policy(r, [](const compile::OptimizerPolicy& o) {
    return traits_of(o.kind).matrices && o.bf16_newton_schulz;
  });
}

// Returns the distance of neighboring moments as a share of their root mean square. In 8 bits,
// first moments differ by at most 0.9 / 64 of the largest of their block, which is about four times
// the root mean square. In bf16, they differ by at most 2^-7 of themselves.
double code_distance(DType moments) {
  if (moments == DType::kU8) return 4 * 0.9 / 64;
  return moments == DType::kBF16 ? 0x1p-7 : 0;
}

// Measured: in 16 bits, correct layouts differ in gradients of routers by up to the tolerance of
// other gradients.
constexpr double kRouterScale = 1.5;

}  // namespace

ValueBounds value_bounds(const compile::CompileRequest& r) {
  ValueBounds bounds;
  bounds.average_share = 1 - r.average_decay;
  bounds.code_distance = code_distance(r.optimizer.moments);
  for (const compile::OptimizerGroup& g : r.groups)
    bounds.code_distance = std::max(bounds.code_distance, code_distance(g.policy.moments));
  // The error of each layer adds to that of the layers before it, with random signs.
  const double walk = std::sqrt(r.model.all_layers() + 1);
  if (r.precision == compile::Precision::kFp32 && !optimizes_in_bf16(r)) {
    bounds.computed = 3e-5 * walk;
    bounds.kept = 3e-4 * walk;
    return bounds;
  }
  const double rounded = walk * rounding_scale(r.model.family), routed = routing_difference(r);
  bounds.computed = 4e-2 * rounded + routed;
  bounds.kept = 1e-1 * rounded + routed + gradient_rounding(r);
  bounds.overflows = r.precision == compile::Precision::kFp16;
  bounds.reroutes = routed > 0;
  if (bounds.reroutes) bounds.router_scale = kRouterScale;
  return bounds;
}

ValueComparison compare_values(const RankRecords& one, std::span<const RankRecords> ranks,
                               const ValueBounds& bounds) {
  return Comparison(one, ranks, bounds).go();
}

}  // namespace tessera::train
