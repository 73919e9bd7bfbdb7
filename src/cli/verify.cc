// tessera verify RUN: compares the results of the run's layout with those of one rank.
//
// Trains some steps twice, on one rank and on all ranks of the layout, with the same data and
// initial weights, and compares losses, gradient norms and digests of every value of a step. If
// both runs are correct, they differ only in the order of summation, so they agree within a
// tolerance that grows with depth. The first value in the order of computation that differs
// identifies the error.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/count.h"
#include "base/tree.h"
#include "checkpoint/durable.h"
#include "cli/rank.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "compile/request.h"
#include "compile/schedule/schedule_passes.h"
#include "launch/child.h"
#include "launch/command.h"
#include "train/compare_values.h"
#include "train/run_programs.h"
#include "train/signals.h"
#include "train/trained_part.h"

namespace tessera::cli {
namespace {

// `sizes`: what the rounding error of a loss is relative to: the loss itself, or the rewards or
// margins of pairs of answers if these are larger.
struct Curve {
  std::vector<double> losses, norms, tokens, sizes;
};

// The tolerances of losses (of a step with kManyTokens) and of gradient norms, relative to the
// sizes and norms of one rank.
constexpr double kManyTokens = 128;
struct Bound {
  double losses = 0, norms = 0;
};

// Returns the tolerances for sums in another order. Errors of one unit in the last place per layer
// accumulate like a random walk, so they grow with the square root of the depth. The factors are
// measured differences of correct runs of kManyTokens or more, with a margin. With bf16 and fp16,
// sums are in f32 and are rounded rarely.
Bound bound_of(const compile::CompileRequest& r) {
  const double walk = std::sqrt(r.model.all_layers() + 1);
  double values = 0.2 * 0x1p-9 * walk;
  if (r.precision == compile::Precision::kFp32) values = 40 * 0x1p-24 * walk;
  if (r.precision == compile::Precision::kFp16) values = 0.2 * 0x1p-12 * walk;
  return {values, 10 * values + train::gradient_rounding(r)};
}

std::vector<std::string> program() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
}

// Runs the command with its output in `log`. Returns false if a signal asked this process to stop:
// then the command was asked to end, and has ended. Throws Error with the end of that output if the
// command fails.
bool run(const std::vector<std::string>& command, const Path& log, const train::StopSignals& stop) {
  const std::string line =
      "exec " + launch::quote_words(command) + " >" + launch::quote_words({log.string()}) + " 2>&1";
  launch::Child child({"/bin/sh", "-c", line}, {});
  bool asked = false;
  std::optional<int> code;
  for (; !(code = child.ended()); std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (stop.requested() && !asked) child.signal_all(SIGTERM);
    asked = stop.requested();
  }
  if (stop.requested()) return false;
  if (*code == 0) return true;
  const std::string said = read_file(log);
  throw Error("verify: {} ended with status {}. End of its output ({}):\n{}", command[0], *code,
              log.string(), said.substr(said.size() > 1500 ? said.size() - 1500 : 0));
}

double number(const Tree& t, const char* key) {
  const Tree* member = t.find(key);
  if (member == nullptr) return NAN;
  return number_in(*member).value_or(NAN);
}

// Returns whether the loss is a mean of softplus(-margin), up to a positive shift of the margin.
bool is_softplus_of_margins(config::ObjectiveKind kind) {
  using Kind = config::ObjectiveKind;
  return kind == Kind::kDpo || kind == Kind::kSimpo || kind == Kind::kReward;
}

// Rewards and margins of several pairs cancel in their means. Since softplus(-m) >= max(-m, 0), the
// mean of |margin| is at most the mean margin plus twice the loss.
Curve read_curve(const Path& metrics, config::ObjectiveKind objective) {
  Curve c;
  for (const Tree& t : parse_json_lines(read_file(metrics), metrics.string())) {
    if (t.find("loss") == nullptr) continue;
    c.losses.push_back(number(t, "loss"));
    c.norms.push_back(number(t, "grad_norm"));
    c.tokens.push_back(number(t, "tokens"));
    const double rewards =
        std::abs(number(t, "rewards_chosen")) + std::abs(number(t, "rewards_rejected"));
    const double margins = is_softplus_of_margins(objective)
                               ? number(t, "rewards_margins") + 2 * c.losses.back()
                               : NAN;
    // NaN marks a figure that the run does not have; fmax() ignores it.
    c.sizes.push_back(std::fmax(std::abs(c.losses.back()), std::fmax(rewards, margins)));
  }
  return c;
}

config::RunConfig resolved(config::RunConfig config) {
  train::resolve_machine(config, read_cpu_features());
  return config;
}

// Returns true for a value that a router or its experts compute ("2|route|forward|…").
bool is_routed(const std::string& key) {
  const std::string op = key.substr(key.find('|') + 1);
  return op.starts_with("route|forward") || op.starts_with("expert_capacity|forward") ||
         op.starts_with("experts|forward");
}

class Verification {
 public:
  Verification(std::string run, std::vector<std::string> overrides, int64_t steps)
      : run_(std::move(run)),
        overrides_(std::move(overrides)),
        steps_(steps),
        config_(resolved(open_run(run_, overrides_))),
        bound_(bound_of(config::compile_request(config_, compile::ProgramKind::kTrain))) {}

  // Returns 0 if all differences are within the tolerance, 1 if not, and 128 + the number of the
  // signal that interrupted the runs.
  int go() {
    require_layout(config_, "verify");
    const int64_t ranks = compile::mesh_of(config_.layout).ranks();
    fmt::print("verify {}: {} rank{} against 1, {} steps, tolerance {:.1e} ({}, {} layers)\n", run_,
               ranks, ranks == 1 ? "" : "s", steps_, bound_.losses,
               name_of_entry(config_.precision), config_.model.all_layers());
    folder_ = checkpoint::make_part_folder(Path(config_.run.directory) / "verify");
    if (const int signal = train_both(ranks); signal != 0) {
      std::filesystem::remove_all(folder_);
      fmt::print("interrupted by signal {}: the layouts were not compared\n", signal);
      return 128 + signal;
    }
    const bool curves = compare_curves();
    const bool values = compare_values();
    if (curves && values) {
      std::filesystem::remove_all(folder_);
      return 0;
    }
    fmt::print("  the logs and values of both runs are in {}\n", folder_.string());
    return 1;
  }

 private:
  // Returns the keys for the same computation on one rank. It joins the micro-batches of all
  // data-parallel ranks. If the vocabulary is divided among tensor-parallel ranks, it computes an
  // unfused cross-entropy, which has the same intermediate values, so that these can be compared.
  std::vector<std::string> alone() const {
    std::vector<std::string> keys = {
        "layout.data=1",
        "layout.expert=1",
        "layout.context=1",
        "layout.tensor=1",
        "layout.pipeline=1",
        "layout.zero=0",
        "layout.interleave=1",
        "layout.pipeline_schedule=1f1b",
        "layout.stages=[]",
        "layout.zero_group=0",
        "layout.zero_reduce=last",
        fmt::format("batch.micro={}", config_.batch.micro * config_.layout.data)};
    if (config_.layout.tensor > 1) keys.emplace_back("compiler.cross_entropy=unfused");
    return keys;
  }

  // Returns settings with which rounding errors of gradients stay small in the updates. Otherwise
  // the runs would differ although both are correct:
  // - AdamW and others divide by (running norm of the gradient + epsilon). A small epsilon turns a
  //   gradient that is only noise into updates of full size.
  // - Muon's iterations make all singular values 1, also those that are only noise. In 16 bits this
  //   noise is large, so that the runs do one iteration, which multiplies it by less than 4.
  // - Adafactor's updates are a share of the weight's size, which counts as min_parameter_scale at
  //   least. A weight that starts at zero, such as an adapter's, stays so small that what is
  //   computed from it underflows in fp16.
  Tree::Members steady_settings(const config::OptimizerSection& o) const {
    const bool exact = config_.precision == compile::Precision::kFp32;
    Tree::Members settings = {{"epsilon", Tree(std::max(o.epsilon, exact ? 1e-5 : 1e-3))}};
    if (traits_of(o.kind).matrices && !exact)
      settings.emplace_back("newton_schulz_steps", Tree(int64_t{1}));
    if (o.kind == OptimizerKind::kAdafactor && config_.precision == compile::Precision::kFp16)
      settings.emplace_back("min_parameter_scale", Tree(1.0));
    return settings;
  }

  // Returns the keys of the steady settings of all optimizers.
  std::vector<std::string> optimizer_keys() const {
    const config::OptimizerSection& o = config_.optimizer;
    std::vector<std::string> keys;
    for (const auto& [key, value] : steady_settings(o))
      keys.push_back(fmt::format("optimizer.{}={}", key, to_json(value)));
    std::vector<config::OptimizerGroupSection> groups = o.groups;
    for (config::OptimizerGroupSection& g : groups)
      for (const auto& [key, value] : steady_settings(config::settings_of(g, o)))
        g.settings.set(key, value);
    if (!groups.empty()) keys.push_back("optimizer.groups=" + to_json(config::write_value(groups)));
    return keys;
  }

  // Returns the tolerance of compare_values() for weights that are updated by signs; an empty
  // function if there are none.
  std::function<double(std::string_view)> signs() const {
    const auto by_sign = [](const compile::OptimizerPolicy& o) {
      return traits_of(o.kind).by_sign;
    };
    const compile::CompileRequest r =
        config::compile_request(config_, compile::ProgramKind::kTrain);
    if (!by_sign(r.optimizer) &&
        std::none_of(r.groups.begin(), r.groups.end(),
                     [&](const compile::OptimizerGroup& g) { return by_sign(g.policy); }))
      return {};
    return [this](std::string_view weight) {
      const config::OptimizerSection o = train::optimizer_of(config_, weight);
      return traits_of(o.kind).by_sign ? 2 * o.learning_rate : 0.0;
    };
  }

  // Returns 0, or the signal that interrupted the runs.
  int train_both(int64_t ranks) const {
    const train::StopSignals stop;  // a second signal ends this process at once
    const bool done =
        train("one", 1, alone(), stop) && train("many", static_cast<int>(ranks), {}, stop);
    return done ? 0 : stop.signal();
  }

  // Returns false if a signal interrupted the run.
  bool train(const std::string& name, int ranks, const std::vector<std::string>& layout,
             const train::StopSignals& stop) const {
    const Path into = folder_ / name;
    launch::StartOptions start;
    start.ranks = ranks;
    start.root = geteuid() == 0;
    start.program = program();
    start.program.push_back(run_);
    start.program.insert(start.program.end(), overrides_.begin(), overrides_.end());
    start.program.insert(start.program.end(), layout.begin(), layout.end());
    for (const std::string& key : optimizer_keys()) start.program.push_back(key);
    // A run with optimizer state on the host cannot dump its values, so that offload is turned off.
    if (const std::string& o = config_.layout.offload; compile::parse_offload(o).optimizer)
      start.program.push_back("layout.offload=" + (o.find("activations") == o.npos
                                                       ? std::string("none")
                                                       : std::string("activations")));
    // Features that would make the runs differ, or that verification does not need, are turned off.
    for (const std::string& key :
         {"run.directory=" + into.string(), fmt::format("run.stop_after_steps={}", steps_),
          "run.dump_values=" + into.string(), std::string("compiler.gemm_dtype=compute"),
          std::string("compiler.poison=false"), std::string("checkpoint.resume=never"),
          std::string("checkpoint.every_steps=0"), std::string("checkpoint.at_steps=[]"),
          std::string("checkpoint.keep_every_steps=0"), std::string("metrics.every_steps=1"),
          std::string("schedule.stop.patience=0"), std::string("run.time_limit=''"),
          std::string("metrics.validate_every_steps=0"),
          std::string("metrics.validate_sequences=1"), std::string("metrics.tensorboard=false")})
      start.program.push_back(key);
    return run(ranks == 1 ? start.program : launch::start_command(start), folder_ / (name + ".log"),
               stop);
  }

  bool compare_curves() const {
    const config::ObjectiveKind objective = config_.objective.kind;
    const Curve one = read_curve(folder_ / "one" / "metrics.jsonl", objective),
                many = read_curve(folder_ / "many" / "metrics.jsonl", objective);
    bool good = one.losses.size() == many.losses.size();
    for (size_t s = 0; s < std::min(one.losses.size(), many.losses.size()); ++s) {
      // The errors of tokens, or of pairs of answers, have random signs, so the error of a mean
      // grows as there are fewer. Metrics have the sum of the tokens of all steps so far.
      const double terms = one.tokens[s] - (s > 0 ? one.tokens[s - 1] : 0);
      const double few = std::sqrt(std::max(1.0, kManyTokens / std::max(1.0, terms)));
      const bool loss =
          std::abs(one.losses[s] - many.losses[s]) <= few * bound_.losses * one.sizes[s];
      const bool norm = both_skipped(one.norms[s], many.norms[s]) ||
                        std::abs(one.norms[s] - many.norms[s]) <= bound_.norms * one.norms[s];
      good = good && loss && norm;
      fmt::print("  step {} loss {:.6f} {} {:.6f}   norm {:.5f} {} {:.5f}\n", s + 1, one.losses[s],
                 loss ? "=" : "≠", many.losses[s], one.norms[s], norm ? "=" : "≠", many.norms[s]);
    }
    return good;
  }

  // Returns true if the gradients of a step overflowed in both runs, so that both skipped the step.
  bool both_skipped(double one, double many) const {
    return config_.precision == compile::Precision::kFp16 && !std::isfinite(one) &&
           !std::isfinite(many);
  }

  train::RankRecords records(const char* name, int64_t rank) const {
    const Path file = folder_ / name / fmt::format("values-{}.txt", rank);
    return train::parse_records(read_file(file), file.string());
  }

  bool compare_values() const {
    std::vector<train::RankRecords> ranks;
    for (int64_t r = 0; r < compile::mesh_of(config_.layout).ranks(); ++r)
      ranks.push_back(records("many", r));
    train::ValueBounds bounds =
        train::value_bounds(config::compile_request(config_, compile::ProgramKind::kTrain));
    bounds.signs = signs();
    const train::ValueComparison c = train::compare_values(records("one", 0), ranks, bounds);
    if (!c.first) {
      fmt::print("  all values agree: {} compared, largest difference {:.0f} % of its tolerance\n",
                 format_count(c.compared), 100 * c.largest);
      return true;
    }
    fmt::print("  first difference: {}, {}{}. All {} values before it agree.\n", c.first->told,
               std::isfinite(c.first->relative) ? fmt::format("{:.1e} relative", c.first->relative)
                                                : "not finite or missing",
               c.first->ranks.empty() ? "" : ", " + c.first->ranks,
               format_count(c.first->equal_before));
    if (is_routed(c.first->key))
      fmt::print(
          "  If the scores of two experts are nearly equal for a token, rounding chooses between "
          "them. Verify again with another run.seed: a wrong layout differs with each.\n");
    return false;
  }

  std::string run_;
  std::vector<std::string> overrides_;
  int64_t steps_;
  config::RunConfig config_;
  Path folder_;  // made by this process; if it remains after a crash, the next verify removes it
  Bound bound_;
};

}  // namespace

int verb_verify(Args args) {
  std::string run;
  std::vector<std::string> overrides;
  int64_t steps = 4;
  Arguments a("verify", "Train some steps with the run's layout and on one rank, and compare them.",
              "tessera verify run.yaml layout.data=2 layout.tensor=2");
  a.required(run, "RUN", "the run file");
  a.many(overrides, "key=value", "overrides of run-file keys");
  a.option(steps, "--steps", "N", "number of steps");
  if (!a.parse(args)) return 0;
  if (steps < 1) throw UsageError("verify: --steps is {}, expected at least 1", steps);
  // Each rank would start all ranks of both runs.
  if (const RankInfo rank = read_rank_info(); rank.ranks > 1)
    throw UsageError(
        "verify: started as rank {} of {}. It starts its ranks itself: run `tessera verify {}` "
        "without mpirun or srun, with the layout as keys.",
        rank.rank, rank.ranks, run);
  return Verification(run, overrides, steps).go();
}

}  // namespace tessera::cli
