// Builds the search space of `tessera tune`: the combinations of the knobs' values that are valid
// runs on the given number of ranks, each of them once.
#include "measure/tune_points.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "plan/explain.h"
#include "train/load_run.h"
#include "train/run_programs.h"

namespace tessera::measure {
namespace {

// The prior probability that a point fits in memory, as log-odds: kOddsOfMemory times the logarithm
// of available over predicted memory, limited to [-kMostOdds, kMostOdds].
constexpr double kOddsOfMemory = 12, kMostOdds = 5;

bool is_number(const std::string& s) {
  return !s.empty() && s.find_first_not_of("0123456789") == s.npos;
}

// Only divisors are choices: micro-batches divide the batch, and degrees of parallelism divide the
// ranks.
std::vector<std::string> divisors(int64_t n, int64_t most) {
  std::vector<std::string> all;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(std::to_string(d));
  return all;
}

// Returns the knobs of a run whose user names none: the micro-batch size and recomputation, which
// trade memory for time, and with several ranks the layout.
std::vector<plan::Knob> usual_knobs(const config::RunConfig& c, int64_t ranks) {
  constexpr int64_t kMostMicro = 64;  // larger ones gain no speed and rarely fit in memory
  std::vector<plan::Knob> knobs = {
      {"batch.micro", divisors(c.batch.global, kMostMicro), true},
      {"layout.recompute", {"none", "selective", "full"}, false},
  };
  if (ranks == 1) return knobs;
  knobs.push_back({"layout.tensor", divisors(ranks, ranks), true});
  knobs.push_back({"layout.pipeline", divisors(ranks, ranks), true});
  knobs.push_back({"layout.zero", {"0", "1", "2", "3"}, false});
  knobs.push_back({"layout.sequence_parallel", {"true", "false"}, false});
  return knobs;
}

int64_t value_of(const config::RunConfig& c, const plan::Space& space, const plan::Point& p,
                 const std::string& key) {
  for (size_t k = 0; k < space.knobs.size(); ++k)
    if (space.knobs[k].key == key) return std::stoll(space.knobs[k].choices[p[k]]);
  return key == "layout.tensor" ? c.layout.tensor : c.layout.pipeline;
}

config::RunConfig config_of(const TunedRun& run, const plan::Space& space,
                            const plan::Point& point) {
  std::vector<std::string> keys = run.keys;
  for (const std::string& k : keys_of(run, space, point)) keys.push_back(k);
  config::RunConfig config = train::load_run(run.run, keys);
  config::validate(config, run.data);
  config::validate_names(config);
  return config;
}

// Returns false for a point whose choices change nothing compared with another one: sequence
// parallelism without tensor parallelism, or ZeRO without data parallelism. With one rank neither
// is a knob.
bool is_first_of_its_kind(const config::RunConfig& c) {
  const compile::Layout& l = c.layout;
  if (compile::mesh_of(l).ranks() == 1) return true;
  return (l.tensor > 1 || l.sequence_parallel) && (l.data * l.context > 1 || l.zero == 0);
}

// The number of points that were rejected, and the reason of the last one.
struct Rejected {
  int64_t points = 0;
  std::string why;
};

bool can_run(const TunedRun& run, const plan::Space& space, const plan::Point& point, bool usual,
             Rejected& rejected) {
  try {
    const config::RunConfig c = config_of(run, space, point);
    return compile::mesh_of(c.layout).ranks() == run.ranks && (!usual || is_first_of_its_kind(c));
  } catch (const Error& e) {
    ++rejected.points;
    rejected.why = e.what();
    return false;
  }
}

// Throws if a key is unknown or a choice is not one of its values, so that a misspelled knob is an
// error and not an empty space.
void check_knobs(const TunedRun& run, const std::vector<plan::Knob>& knobs) {
  for (const plan::Knob& knob : knobs)
    for (const std::string& choice : knob.choices) {
      std::vector<std::string> keys = run.keys;
      keys.push_back(knob.key + "=" + choice);
      train::load_run(run.run, keys);
    }
}

}  // namespace

plan::Knob parse_knob(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals + 1 == text.size())
    throw UsageError("--knob {}: expected KEY=CHOICE,CHOICE,…", text);
  plan::Knob knob;
  knob.key = text.substr(0, equals);
  for (size_t at = equals + 1; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    knob.choices.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  knob.ordered = std::all_of(knob.choices.begin(), knob.choices.end(), is_number);
  return knob;
}

std::vector<std::string> keys_of(const TunedRun& run, const plan::Space& space,
                                 const plan::Point& point) {
  std::vector<std::string> keys;
  bool data = false;
  for (size_t k = 0; k < space.knobs.size(); ++k) {
    keys.push_back(space.knobs[k].key + "=" + space.knobs[k].choices[point[k]]);
    data |= space.knobs[k].key == "layout.data";
  }
  if (data) return keys;
  const config::RunConfig c = train::load_run(run.run, run.keys);
  const int64_t model = c.layout.context * value_of(c, space, point, "layout.tensor") *
                        value_of(c, space, point, "layout.pipeline");
  // Data parallelism uses the ranks that tensor, context and pipeline parallelism leave.
  keys.push_back(fmt::format("layout.data={}", std::max<int64_t>(run.ranks / model, 1)));
  return keys;
}

plan::Space space_of(const TunedRun& run, const std::vector<plan::Knob>& given) {
  std::vector<plan::Knob> knobs = given;
  if (given.empty()) knobs = usual_knobs(train::load_run(run.run, run.keys), run.ranks);
  check_knobs(run, knobs);
  plan::Space space = plan::product(std::move(knobs));
  const size_t all = space.points.size();
  Rejected rejected;
  std::erase_if(space.points, [&](const plan::Point& p) {
    return !can_run(run, space, p, given.empty(), rejected);
  });
  if (!space.points.empty()) return space;
  if (rejected.points == 0)
    throw Error(
        "none of {} combinations of the knobs has -n {} as the product of layout.tensor, "
        "layout.pipeline and layout.data. Change these knobs, or -n.",
        all, run.ranks);
  throw Error("{} of {} combinations of the knobs are rejected, the last one for this reason: {}",
              rejected.points, all, rejected.why);
}

plan::Prediction Simulator::prediction(const TunedRun& tuned, const plan::Space& space,
                                       const plan::Point& point) const {
  config::RunConfig config = config_of(tuned, space, point);
  if (config.precision == compile::Precision::kAuto) config.precision = compile::Precision::kFp32;
  train::resolve_sizes(config);
  return plan::predict(config::compile_request(config, compile::ProgramKind::kTrain), hardware,
                       plan::Software{}, target);
}

plan::TrialResult Simulator::run(const TunedRun& tuned, const plan::Space& space,
                                 const plan::Point& point) const {
  const plan::Prediction p = prediction(tuned, space, point);
  return plan::fits(p, hardware) ? plan::TrialResult{plan::Outcome::kRan, p.step_s}
                                 : plan::TrialResult{plan::Outcome::kOutOfMemory, 0};
}

plan::PriorBelief Simulator::believe(const TunedRun& tuned, const plan::Space& space,
                                     const plan::Point& point) const {
  const plan::Prediction p = prediction(tuned, space, point);
  const double room =
      std::log(plan::usable_bytes(hardware.device) / static_cast<double>(p.fullest().peak_bytes));
  return {p.step_s, std::clamp(kOddsOfMemory * room, -kMostOdds, kMostOdds)};
}

plan::Hardware perturbed(plan::Hardware h, double share, uint64_t seed) {
  const Philox random{hash_name("perturb", seed)};
  uint64_t next = 0;
  const auto move = [&](double& figure) {
    figure *= 1 + share * (2.0 * Philox::uniform(random.block(next++)[0]) - 1);
  };
  for (double* figure :
       {&h.device.memory_bytes, &h.device.memory_bytes_per_s, &h.device.bf16_flops_per_s,
        &h.device.fp32_flops_per_s, &h.device.kernel_s, &h.node.bytes_per_s, &h.node.latency_s,
        &h.network.bytes_per_s, &h.network.latency_s})
    move(*figure);
  for (plan::OpRates* rates : {&h.device.op_bytes_per_s, &h.device.op_flops_per_s})
    for (auto& [op, rate] : *rates) move(rate);
  for (plan::MeasuredProduct& p : h.device.products) move(p.flops_per_s);
  return h;
}

}  // namespace tessera::measure
