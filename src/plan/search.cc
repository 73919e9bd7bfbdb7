// Best-first branch and bound over the candidate layouts. The queue is ordered by a lower bound of
// the step time; the entry with the smallest bound is refined one step and put back:
//
//   formula (all candidates, µs) → walk of all actions → simulation of stage 0 alone → simulation
//
// A bound never decreases by refinement (maximum with the previous one). So when the smallest bound
// exceeds the time of the last of the `keep` best results, every open candidate is slower, and the
// answer equals that of simulating everything. Candidates whose memory bound exceeds the device are
// dropped at each level.
#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>

#include "base/count.h"
#include "base/error.h"
#include "compile/passes.h"
#include "plan/explain.h"
#include "plan/predict.h"
#include "plan/search_bound.h"

namespace tessera::plan {
namespace {

// How the bound of a candidate's time was obtained: by the formula, by the walk over all actions,
// or by simulating its first stage alone.
enum class Known : uint8_t { kFormula, kWalk, kAlone };

struct Entry {
  int64_t step_ns = 0;
  size_t index = 0;
  Known known = Known::kFormula;

  bool operator>(const Entry& o) const {
    return step_ns != o.step_ns ? step_ns > o.step_ns : index > o.index;
  }
};

int64_t step_ns(const Prediction& p) { return std::llround(p.step_s * 1e9); }

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
    return std::llround(usable_bytes(hardware_.device) - hardware_.device.outside_bytes);
  }
  bool may_fit(const Bound& b);
  void all_bounds();
  void look_closer(size_t index);
  void look_at_first_stage(const Entry& walked);
  std::optional<Prediction> predict(const Candidate& c) const;
  void simulate_in_full(size_t index);
  bool slower_than_kept(int64_t ns) const;

  const SearchRequest& request_;
  const Target& target_;
  const Hardware& hardware_;
  const Software& software_;
  Bounds bounds_;
  std::vector<Candidate> candidates_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::vector<std::pair<RankedLayout, size_t>> kept_;  // by time, then index
  SearchResult result_;
};

bool Search::may_fit(const Bound& b) {
  if (b.bytes <= room() || !request_.prune) return true;
  ++result_.too_large;
  const int64_t needs = b.bytes + std::llround(hardware_.device.outside_bytes);
  if (result_.smallest_bytes == 0 || needs < result_.smallest_bytes) result_.smallest_bytes = needs;
  return false;
}

// In ascending order of micro-batches: those that are too large are then often known to be so
// before any block with them is compiled.
void Search::all_bounds() {
  std::map<int64_t, std::vector<size_t>> by_micro;
  for (size_t i = 0; i < candidates_.size(); ++i) by_micro[candidates_[i].micro].push_back(i);
  for (const auto& [micro, indices] : by_micro) {
    std::vector<const Candidate*> open;
    for (const size_t i : indices) {
      if (!request_.prune)
        open_.push({0, i, Known::kAlone});
      else if (bounds_.bytes_by_smaller_micro(candidates_[i]) > room())
        ++result_.too_large;
      else
        open.push_back(&candidates_[i]);
    }
    bounds_.compile_blocks(open);
    for (const Candidate* c : open) {
      const Bound b = bounds_.quick(*c);
      if (may_fit(b)) open_.push({b.step_ns, size_t(c - candidates_.data()), Known::kFormula});
    }
  }
}

void Search::look_closer(size_t index) {
  const Bound b = bounds_.closer(candidates_[index]);
  if (may_fit(b)) open_.push({b.step_ns, index, Known::kWalk});
}

// Simulates the first stage alone, with messages that are never late. In addition to the walk's
// bound this has the waits for buffers whose bytes are used again.
void Search::look_at_first_stage(const Entry& walked) {
  const Candidate& c = candidates_[walked.index];
  Entry next = {walked.step_ns, walked.index, Known::kAlone};
  if (c.layout.pipeline > 1) {
    const compile::CompiledBlocks blocks =
        compile::compile_blocks(request_of(request_, c), target_);
    const std::vector<Program> alone = {compile::program_of(blocks, 0)};
    if (!may_fit({0, alone[0].bytes})) return;
    if (!has_room(hardware_.device, memory_need(alone[0]))) {
      ++result_.too_large;
      return;
    }
    next.step_ns = std::max(next.step_ns, step_ns(simulate(alone, hardware_, software_)));
  }
  open_.push(next);
}

// Returns nothing if a stage does not fit. Stages are compiled from the last one on: if the first
// one fits, the last one is the most likely not to.
std::optional<Prediction> Search::predict(const Candidate& c) const {
  const compile::CompileRequest request = request_of(request_, c);
  const compile::CompiledBlocks blocks = compile::compile_blocks(request, target_);
  std::vector<Program> programs(c.layout.pipeline);
  for (auto stage = programs.size(); stage-- > 0;) {
    programs[stage] = compile::program_of(blocks, stage);
    if (!has_room(hardware_.device, memory_need(programs[stage]))) return std::nullopt;
  }
  Prediction p = simulate(programs, hardware_, software_);
  add_smaller_steps(p, request, hardware_, target_);
  if (!fits(p, hardware_)) return std::nullopt;
  return p;
}

void Search::simulate_in_full(size_t index) {
  ++result_.simulated;
  std::optional<Prediction> p = predict(candidates_[index]);
  if (!p) return;
  result_.fitting.push_back({candidates_[index], p->step_s, p->mfu(), p->fullest().peak_bytes});
  // Ties are broken by the index, so the order of the answers is that of the candidates.
  const auto before = [](const auto& a, const auto& b) {
    const double s = a.first.prediction.step_s, t = b.first.prediction.step_s;
    return s != t ? s < t : a.second < b.second;
  };
  std::pair<RankedLayout, size_t> found{{candidates_[index], *std::move(p)}, index};
  kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), found, before), std::move(found));
  if (kept_.size() > request_.keep) kept_.pop_back();
}

bool Search::slower_than_kept(int64_t ns) const {
  // A candidate with the same time as the last kept one may still precede it by its index.
  if (!request_.prune || kept_.size() < request_.keep) return false;
  return ns > step_ns(kept_.back().first.prediction);
}

SearchResult Search::run() {
  result_.candidates = std::ssize(candidates_);
  all_bounds();
  while (!open_.empty() && !slower_than_kept(open_.top().step_ns)) {
    const Entry next = open_.top();
    open_.pop();
    if (request_.progress) request_.progress(result_, std::ssize(open_));
    if (next.known == Known::kFormula)
      look_closer(next.index);
    else if (next.known == Known::kWalk)
      look_at_first_stage(next);
    else
      simulate_in_full(next.index);
  }
  result_.too_slow = std::ssize(open_);
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
  const Software here = on_machine(software, hardware);
  SearchResult r = Search(request, target, hardware, here).run();
  if (r.candidates == 0)
    throw Error(
        "no layout of {} devices is possible: tensor must divide the heads ({}), and data × micro "
        "the batch of {} sequences{}.",
        request.devices, request.base.model.heads, request.global,
        request.ramp.empty() ? "" : " and every batch of batch.warmup_sizes");
  return r;
}

std::vector<std::string> differences(const Prediction& slower, const Prediction& faster) {
  const TimeParts &a = slower.parts, &b = faster.parts;
  std::vector<std::pair<double, std::string>> parts;
  add_part(parts, "GEMMs", a.matrix(), b.matrix());
  add_part(parts, "attention", a.attention(), b.attention());
  add_part(parts, "other computation", a.computing() - a.matrix() - a.attention(),
           b.computing() - b.matrix() - b.attention());
  add_part(parts, "recomputation", a.recomputation, b.recomputation);
  add_part(parts, "optimizer", a.optimizer, b.optimizer);
  add_part(parts, "bubble", a.bubble, b.bubble);
  add_part(parts, "host", a.host, b.host);
  for (const TrafficKind t : Enumerators<TrafficKind>())
    add_part(parts, fmt::format("exposed {} traffic", name_of(t)), a.exposed[t], b.exposed[t]);
  std::sort(parts.begin(), parts.end(),
            [](const auto& x, const auto& y) { return std::abs(x.first) > std::abs(y.first); });
  const double shown = 0.05 * std::abs(parts[0].first);
  std::vector<std::string> lines;
  for (const auto& [seconds, name] : parts)
    if (std::abs(seconds) > shown)
      lines.push_back(
          fmt::format("{}{} {}", seconds < 0 ? "−" : "+", step_text(std::abs(seconds)), name));
  return lines;
}

}  // namespace tessera::plan
