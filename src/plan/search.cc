#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "base/error.h"
#include "compile/blocks.h"
#include "plan/search_bound.h"

namespace tessera {
namespace {

// A candidate in the queue: with the formula's bound, then with the closer one.
struct Entry {
  int64_t step_ns = 0;
  size_t index = 0;
  bool close = false;

  bool operator>(const Entry& o) const {
    return step_ns != o.step_ns ? step_ns > o.step_ns : index > o.index;
  }
};

class Search {
 public:
  Search(const SearchRequest& request, const Target& target, const Hardware& hardware,
         const Software& software)
      : request_(request),
        target_(target),
        hardware_(hardware),
        software_(software),
        bounds_(request, target, hardware, software),
        candidates_(candidates(request)) {}

  SearchResult run();

 private:
  int64_t room() const {
    return std::llround(hardware_.device.memory_bytes - hardware_.device.outside_bytes);
  }
  bool may_fit(const Bound& b);
  void all_bounds();
  void look_closer(size_t index);
  std::optional<Prediction> predict(const Candidate& c) const;
  void simulate_in_full(size_t index);
  bool slower_than_kept(int64_t step_ns) const;

  const SearchRequest& request_;
  const Target& target_;
  const Hardware& hardware_;
  const Software& software_;
  Bounds bounds_;
  std::vector<Candidate> candidates_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::vector<std::pair<Found, size_t>> kept_;  // by time, then index
  SearchResult result_;
};

bool Search::may_fit(const Bound& b) {
  if (b.bytes <= room() || !request_.prune) return true;
  ++result_.too_large;
  const int64_t needs = b.bytes + std::llround(hardware_.device.outside_bytes);
  if (result_.smallest_bytes == 0 || needs < result_.smallest_bytes) result_.smallest_bytes = needs;
  return false;
}

void Search::all_bounds() {
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Bound b = request_.prune ? bounds_.quick(candidates_[i]) : Bound{};
    if (may_fit(b)) open_.push({b.step_ns, i, !request_.prune});
  }
}

void Search::look_closer(size_t index) {
  const Bound b = bounds_.closer(candidates_[index]);
  if (may_fit(b)) open_.push({b.step_ns, index, true});
}

// Nothing where a stage does not fit: the first and the last most often are the fullest.
std::optional<Prediction> Search::predict(const Candidate& c) const {
  const Blocks blocks = compile_blocks(request_of(request_, c), target_);
  const int64_t stages = c.layout.pipeline;
  std::vector<Program> programs(static_cast<size_t>(stages));
  for (int64_t i = 0; i < stages; ++i) {
    const int64_t stage = i == 0 ? 0 : stages - i;
    Program& p = programs[static_cast<size_t>(stage)] = program_of(blocks, stage, target_);
    if (p.bytes > room()) return std::nullopt;
  }
  return simulate(programs, hardware_, software_);
}

void Search::simulate_in_full(size_t index) {
  ++result_.simulated;
  std::optional<Prediction> p = predict(candidates_[index]);
  if (!p) return;
  ++result_.fit;
  const auto before = [](const auto& a, const auto& b) {
    const double s = a.first.prediction.step_s, t = b.first.prediction.step_s;
    return s != t ? s < t : a.second < b.second;
  };
  std::pair<Found, size_t> found{{candidates_[index], *std::move(p)}, index};
  kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), found, before), std::move(found));
  if (kept_.size() > request_.keep) kept_.pop_back();
}

bool Search::slower_than_kept(int64_t step_ns) const {
  if (!request_.prune || kept_.size() < request_.keep) return false;
  return step_ns > std::llround(kept_.back().first.prediction.step_s * 1e9);
}

SearchResult Search::run() {
  result_.candidates = static_cast<int64_t>(candidates_.size());
  all_bounds();
  while (!open_.empty() && !slower_than_kept(open_.top().step_ns)) {
    const Entry next = open_.top();
    open_.pop();
    if (next.close)
      simulate_in_full(next.index);
    else
      look_closer(next.index);
  }
  result_.too_slow = static_cast<int64_t>(open_.size());
  for (auto& [found, index] : kept_) result_.best.push_back(std::move(found));
  return std::move(result_);
}

void add_part(std::vector<std::pair<double, std::string>>& parts, const std::string& name,
              double slower, double faster) {
  parts.emplace_back(slower - faster, name);
}

}  // namespace

SearchResult search(const SearchRequest& request, const Target& target, const Hardware& hardware,
                    const Software& software) {
  SearchResult r = Search(request, target, hardware, software).run();
  if (r.candidates == 0)
    throw Error(
        "no layout of {} devices is possible: tensor must divide the heads ({}), and data × micro "
        "the batch of {} sequences.",
        request.devices, request.base.model.heads, request.global);
  return r;
}

std::vector<std::string> differences(const Prediction& slower, const Prediction& faster) {
  const TimeParts &a = slower.parts, &b = faster.parts;
  std::vector<std::pair<double, std::string>> parts;
  add_part(parts, "matrix products", a.matrix(), b.matrix());
  add_part(parts, "attention", a.attention(), b.attention());
  add_part(parts, "other computation", a.computing() - a.matrix() - a.attention(),
           b.computing() - b.matrix() - b.attention());
  add_part(parts, "recomputation", a.recomputation, b.recomputation);
  add_part(parts, "optimizer", a.optimizer, b.optimizer);
  add_part(parts, "bubble", a.bubble, b.bubble);
  add_part(parts, "host", a.host, b.host);
  for (int t = 0; t < kTraffics; ++t)
    add_part(parts, fmt::format("exposed {} traffic", name_of(static_cast<Traffic>(t))),
             a.exposed[static_cast<size_t>(t)], b.exposed[static_cast<size_t>(t)]);
  std::sort(parts.begin(), parts.end(),
            [](const auto& x, const auto& y) { return std::abs(x.first) > std::abs(y.first); });
  const double shown = 0.05 * std::abs(parts[0].first);
  std::vector<std::string> lines;
  for (const auto& [seconds, name] : parts)
    if (std::abs(seconds) > shown) lines.push_back(fmt::format("{:+.3g} s {}", seconds, name));
  return lines;
}

}  // namespace tessera
