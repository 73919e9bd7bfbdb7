// Deterministic blending of weighted sources (blend.h has the rules). Weights are integers in units
// of 2^-40 of the largest, and all comparisons are exact in 128 bits, so every rank and every
// resume chooses the same sources. The state before every 4,096th sample is stored, so a jump
// replays at most that many choices.
#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tessera::data {
namespace {

constexpr int64_t kMarkEvery = 4096;
__extension__ using Wide = __int128;  // for weight × sample number

}  // namespace

Blend::Blend(std::span<const double> weights) : given_(weights.size(), 0) {
  CHECK(!weights.empty(), "a blend without sources");
  double largest = 0;
  for (const double w : weights) {
    CHECK(w > 0 && std::isfinite(w), "a source has the weight {}", w);
    largest = std::max(largest, w);
  }
  for (const double w : weights) {
    weights_.push_back(std::max<int64_t>(1, std::llround(w / largest * 0x1p40)));
    total_ += weights_.back();
  }
  marks_.push_back({0, given_});
}

void Blend::continue_from(std::span<const int64_t> given) {
  CHECK(given.size() == given_.size() && next_ == 0,
        "{} counts for a blend of {} sources that has given {} samples", given.size(),
        given_.size(), next_);
  given_.assign(given.begin(), given.end());
  next_ = std::accumulate(given.begin(), given.end(), int64_t{0});
  if (next_ > 0) marks_.push_back({next_, given_});
}

int Blend::choose() const {
  const bool greedy = weights_.size() <= 2;
  int best = -1;
  Wide best_lag = 0;
  for (int i = 0; i < std::ssize(weights_); ++i) {
    // All terms are multiplied by total_, so that no division rounds.
    const Wide w = weights_[i], given = Wide{given_[i]} * total_;
    // The quota rule: a source that has reached its upper quota must wait.
    if (!greedy && given >= w * (next_ + 1)) continue;
    const Wide lag = w * std::max<int64_t>(next_, 1) - given;
    bool better = best < 0 || lag > best_lag;
    if (!greedy && best >= 0) {
      const size_t b = best;
      // w_i / (given_i + 1) against w_b / (given_b + 1), multiplied out
      const Wide mine = w * (given_[b] + 1), theirs = Wide{weights_[b]} * (given_[i] + 1);
      better = mine > theirs || (mine == theirs && lag > best_lag);
    }
    if (better) {
      best = i;
      best_lag = lag;
    }
  }
  return best;
}

void Blend::seek(int64_t sample) {
  if (weights_.size() == 1) {
    given_[0] = next_ = sample;
    return;
  }
  // Continues from the current state, unless the last stored state before `sample` is nearer.
  const auto after = std::upper_bound(marks_.begin(), marks_.end(), sample,
                                      [](int64_t s, const Mark& mark) { return s < mark.sample; });
  const Mark& known = *(after - 1);
  if (next_ > sample || next_ < known.sample) {
    given_ = known.given;
    next_ = known.sample;
  }
  while (next_ < sample) at(next_);
}

Blend::Pick Blend::at(int64_t sample) {
  CHECK(sample >= 0, "sample {}", sample);
  if (sample != next_) seek(sample);
  const int source = choose();
  const Pick pick{source, given_[source]++};
  ++next_;
  const bool marks = weights_.size() > 1 && next_ >= marks_.back().sample + kMarkEvery;
  if (marks) marks_.push_back({next_, given_});
  return pick;
}

std::vector<int64_t> Blend::given(int64_t samples) {
  seek(samples);
  return given_;
}

}  // namespace tessera::data
