// tessera verify RUN: the run's own layout beside one rank.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/tree.h"
#include "checkpoint/compare.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "compile/compile.h"
#include "launch/command.h"

namespace tessera {
namespace {

struct Curve {
  std::vector<double> losses, norms;
};

// What is checked, and how closely: `values` for losses and norms, `gradients` norm-wise.
struct Bound {
  double values = 0, gradients = 0;
};

// Sums in another order: errors of a unit in the last place a layer add up like a random walk. The
// factors are those of correct runs with room to spare; bf16 is summed in f32 and rounded seldom.
Bound bound_of(Precision precision, int64_t layers) {
  const double walk = std::sqrt(static_cast<double>(layers) + 1);
  const double values = precision == Precision::kFp32 ? 40 * 0x1p-24 * walk : 0.2 * 0x1p-9 * walk;
  return {values, 10 * values};
}

std::vector<std::string> program() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
}

// Runs the command with its output in `log`. Throws Error with the end of it.
void run(const std::vector<std::string>& command, const Path& log) {
  const std::string line =
      quote_words(command) + " >" + quote_words({log.string()}) + " 2>&1 </dev/null";
  const int status = std::system(line.c_str());
  if (status == 0) return;
  const std::string said = read_file(log);
  throw Error("verify: {} ended with {}. Its last words ({}):\n{}", command[0],
              WIFEXITED(status) ? WEXITSTATUS(status) : status, log.string(),
              said.substr(said.size() > 1500 ? said.size() - 1500 : 0));
}

double number(const Tree& t, const char* key) {
  const Tree* member = t.find(key);
  if (member == nullptr) return NAN;
  if (const auto* whole = std::get_if<int64_t>(&member->value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&member->value);
  return real != nullptr ? *real : NAN;
}

Curve read_curve(const Path& metrics) {
  Curve c;
  const std::string text = read_file(metrics);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const Tree t = parse_json(text.substr(at, end - at), metrics.string());
    at = end + 1;
    if (t.find("loss") == nullptr) continue;
    c.losses.push_back(number(t, "loss"));
    c.norms.push_back(number(t, "grad_norm"));
  }
  return c;
}

// Where in the backward a weight's gradient is made: the head first, then the last layer. An
// encoder's come after the decoder's and what stands between them.
int64_t backward_place(const std::string& name) {
  constexpr int64_t kStack = int64_t{1} << 40;  // more than a stack has layers
  const std::pair<const char*, int64_t> stacks[] = {
      {"layer", kStack}, {"decoder", kStack}, {"bridge", 2 * kStack}, {"encoder", 4 * kStack}};
  if (name.starts_with("head")) return 0;
  for (const auto& [stack, place] : stacks)
    if (name.starts_with(stack)) return place - std::atoll(name.c_str() + std::strlen(stack));
  return INT64_MAX;
}

class Verification {
 public:
  Verification(std::string run, std::vector<std::string> overrides, int64_t steps)
      : run_(std::move(run)),
        overrides_(std::move(overrides)),
        steps_(steps),
        config_(open_run(run_, overrides_)),
        folder_(Path(config_.run.directory) / "verify"),
        bound_(bound_of(config_.precision, config_.model.all_layers())) {}

  // 0 where nothing differs beyond the bound, else 1.
  int go() {
    const int64_t ranks = mesh_of(config_.layout).ranks();
    fmt::print("verify {}: {} rank{} against 1, {} steps, bound {:.1e} ({}, {} layers)\n", run_,
               ranks, ranks == 1 ? "" : "s", steps_, bound_.values,
               name_of_entry(config_.precision), config_.model.all_layers());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    train("one", 1, alone());
    train("many", static_cast<int>(ranks), {});
    const bool curves = compare_curves();
    const bool gradients = compare_gradients();
    if (curves && gradients) fmt::print("  all values agree\n");
    return curves && gradients ? 0 : 1;
  }

 private:
  static std::vector<std::string> alone() {
    return {"layout.data=1",    "layout.tensor=1",     "layout.pipeline=1",
            "layout.zero=0",    "layout.interleave=1", "layout.pipeline_schedule=1f1b",
            "layout.stages=[]", "layout.zero_group=0", "layout.zero_reduce=last"};
  }

  void train(const std::string& name, int ranks, const std::vector<std::string>& layout) const {
    const Path into = folder_ / name;
    StartOptions start;
    start.ranks = ranks;
    start.root = geteuid() == 0;
    start.program = program();
    start.program.push_back(run_);
    start.program.insert(start.program.end(), overrides_.begin(), overrides_.end());
    start.program.insert(start.program.end(), layout.begin(), layout.end());
    for (const std::string& key :
         {"run.directory=" + into.string(), fmt::format("run.stop_after_steps={}", steps_),
          "run.dump_gradients=" + (into / "gradients").string(),
          std::string("checkpoint.resume=never"), std::string("checkpoint.every_steps=0"),
          std::string("checkpoint.at_steps=[]"), std::string("checkpoint.keep_every_steps=0"),
          std::string("metrics.every_steps=1"), std::string("metrics.validate_every_steps=0"),
          std::string("metrics.validate_sequences=1"), std::string("metrics.tensorboard=false")})
      start.program.push_back(key);
    run(ranks == 1 ? start.program : start_command(start), folder_ / (name + ".log"));
  }

  bool compare_curves() const {
    const Curve one = read_curve(folder_ / "one" / "metrics.jsonl"),
                many = read_curve(folder_ / "many" / "metrics.jsonl");
    bool good = one.losses.size() == many.losses.size();
    for (size_t s = 0; s < std::min(one.losses.size(), many.losses.size()); ++s) {
      const auto equal = [&](double a, double b) {
        return std::abs(a - b) <= bound_.values * std::abs(a);
      };
      const bool loss = equal(one.losses[s], many.losses[s]);
      const bool norm = std::abs(one.norms[s] - many.norms[s]) <= bound_.gradients * one.norms[s];
      good = good && loss && norm;
      fmt::print("  step {} loss {:.6f} {} {:.6f}   norm {:.5f} {} {:.5f}\n", s + 1, one.losses[s],
                 loss ? "=" : "≠", many.losses[s], one.norms[s], norm ? "=" : "≠", many.norms[s]);
    }
    return good;
  }

  bool compare_gradients() const {
    CheckpointReader one(folder_ / "one" / "gradients"), many(folder_ / "many" / "gradients");
    std::vector<TensorDifference> beyond;
    for (TensorDifference& d : compare(one, many))
      if (!d.what.empty() || !(d.relative <= bound_.gradients)) beyond.push_back(std::move(d));
    if (beyond.empty()) return true;
    const auto first = std::min_element(beyond.begin(), beyond.end(),
                                        [](const TensorDifference& a, const TensorDifference& b) {
                                          return std::pair(backward_place(a.name), -a.relative) <
                                                 std::pair(backward_place(b.name), -b.relative);
                                        });
    fmt::print(
        "  first difference, as the backward goes: gradient of {}, {}. {} of {} gradients "
        "differ.\n",
        first->name,
        first->what.empty() ? fmt::format("{:.1e} relative", first->relative) : first->what,
        beyond.size(), one.tensors().size());
    return false;
  }

  std::string run_;
  std::vector<std::string> overrides_;
  int64_t steps_;
  RunConfig config_;
  Path folder_;
  Bound bound_;
};

}  // namespace

int verb_verify(Args args) {
  std::string run;
  std::vector<std::string> overrides;
  int64_t steps = 4;
  Arguments a("verify", "Trains some steps on the run's own layout and on one rank, and compares.",
              "tessera verify run.yaml layout.data=2 layout.tensor=2");
  a.required(run, "RUN", "the run file");
  a.many(overrides, "key=value", "replaces what the run file says");
  a.option(steps, "--steps", "N", "how many");
  if (!a.parse(args)) return 0;
  return Verification(run, overrides, steps).go();
}

}  // namespace tessera
