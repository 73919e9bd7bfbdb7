// Prints a prediction as text and as JSON. The limiting factor is the matrix rate if GEMMs take
// more than three times as long as the largest other part, otherwise that part.
//
// Text and JSON are printed from the same prediction. Parts of a time are exposed times, so they
// add up to the step; communication that overlaps computation is reported next to them, not in the
// sum.
#include "plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/config.h"
#include "base/count.h"
#include "base/enum_array.h"
#include "ir/rule.h"

namespace tessera::plan {
namespace {

// The parts of the step time that a page lists.
enum class StepPart : uint8_t {
  kMatrix,
  kAttention,
  kRecomputation,
  kSweeps,
  kTensor,
  kData,
  kPipeline,
  kWorld,
  kHostCopies,
  kBubble,
  kOptimizer,
  kHost
};
constexpr size_t count_of(StepPart) { return static_cast<size_t>(StepPart::kHost) + 1; }
constexpr EnumArray<StepPart, const char*> kPartNames = {
    "GEMMs",       "attention", "recomputation", "element-wise ops",
    "tensor comm", "data comm", "pipeline comm", "world comm",
    "host copies", "bubble",    "optimizer",     "launch waits"};

struct Part {
  StepPart kind;
  double seconds;
};

// Returns the parts that add up to the step: computation by its limit (matrix rate, attention
// kernels, memory bandwidth), exposed communication by mesh axis, and idle time.
std::vector<Part> parts_of(const TimeParts& t) {
  return {{StepPart::kMatrix, t.matrix()},
          {StepPart::kAttention, t.attention()},
          {StepPart::kRecomputation, t.recomputation},
          {StepPart::kSweeps, t.computing() - t.matrix() - t.attention()},
          {StepPart::kTensor, t.exposed[TrafficKind::kTensor]},
          {StepPart::kData, t.exposed[TrafficKind::kData]},
          {StepPart::kPipeline, t.exposed[TrafficKind::kPipeline]},
          {StepPart::kWorld, t.exposed[TrafficKind::kWorld]},
          {StepPart::kHostCopies, t.exposed[TrafficKind::kHost]},
          {StepPart::kBubble, t.bubble},
          {StepPart::kOptimizer, t.optimizer},
          {StepPart::kHost, t.host}};
}

// Returns a bar of at most 20 characters (the whole step), in eighths of a character.
std::string bar(double share) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  constexpr double kWidth = 20;
  const long eighths = std::lround(share * kWidth * 8);
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  return out + kEighths[eighths % 8];
}

std::string budget(const Prediction& p, double tokens) {
  if (tokens <= 0) return "";
  std::string out =
      fmt::format(" · {} tokens in {}", amount_text(tokens), run_text(tokens / p.tokens_per_s()));
  if (p.usd_per_device_hour > 0)
    out += fmt::format(" for {}, at {} per device-hour", price_text(p.usd(tokens)),
                       price_text(p.usd_per_device_hour));
  return out;
}

// Returns the line that breaks down the memory of the fullest stage by use.
std::string memory_line(const Prediction& p, const Hardware& h) {
  const compile::MemoryPlan& m = p.fullest().memory;
  const DeviceFigures& d = h.device;
  std::string kept;
  if (d.headroom > 0)
    kept = fmt::format(", {} of {:.1f} kept free", percent_text(d.headroom), gib(d.memory_bytes));
  const std::string host = m.host == 0 ? "" : " · host memory " + bytes_text(m.host);
  return fmt::format(
      "memory {} of {:.1f} GiB{} (stage {}): activations {} · optimizer {} · weights {} · "
      "gradients "
      "{} · outside the arena {}{}",
      bytes_text(p.fullest().peak_bytes), gib(usable_bytes(d)), kept, p.fullest_stage,
      bytes_text(m.activations), bytes_text(m.optimizer), bytes_text(m.weights),
      bytes_text(m.gradients), bytes_text(outside_bytes(d, m.communicators)), host);
}

// Returns the name of an optimizer: "adamw", "group 1 (sgd)".
std::string name_of(const OptimizerPart& part) {
  const int64_t group = is_adamw_of(part.group) ? adamw_of(part.group) : part.group;
  return group == 0 ? std::string(part.rule) : fmt::format("group {} ({})", group, part.rule);
}

// Returns the line with the state bytes and the time of each optimizer on the fullest stage, or an
// empty string if there is only one optimizer.
std::string optimizer_line(const Prediction& p) {
  const std::vector<OptimizerPart>& parts = p.fullest().optimizers;
  if (parts.size() < 2) return "";
  std::string line;
  for (const OptimizerPart& part : parts)
    line += fmt::format("{}{}{} {} and {}", line.empty() ? "optimizers (" : " · ",
                        line.empty() ? fmt::format("stage {}): ", p.fullest_stage) : "",
                        name_of(part), bytes_text(part.bytes), step_text(part.seconds));
  return line + '\n';
}

Tree optimizers_tree(const StagePrediction& s) {
  Tree list = Tree::list();
  for (const OptimizerPart& part : s.optimizers) {
    Tree t;
    t.set("group", Tree(is_adamw_of(part.group) ? adamw_of(part.group) : part.group));
    t.set("kind", Tree(std::string(part.rule)));
    t.set("state_bytes", Tree(part.bytes));
    t.set("seconds", Tree(part.seconds));
    list.push(std::move(t));
  }
  return list;
}

Tree memory_tree(const StagePrediction& s) {
  Tree t;
  t.set("peak_bytes", Tree(s.peak_bytes));
  t.set("weights_bytes", Tree(s.memory.weights));
  t.set("gradients_bytes", Tree(s.memory.gradients));
  t.set("optimizer_bytes", Tree(s.memory.optimizer));
  t.set("activations_bytes", Tree(s.memory.activations));
  t.set("saved_bytes", Tree(s.memory.saved));
  t.set("arena_bytes", Tree(s.memory.arena));
  t.set("host_bytes", Tree(s.memory.host));
  return t;
}

Tree parts_tree(const TimeParts& t) {
  Tree compute, exposed, all;
  for (const OpKind k : Enumerators<OpKind>())
    if (const double s = t.compute[k]; s > 0) compute.set(tessera::name_of(k), Tree(s));
  for (const TrafficKind a : Enumerators<TrafficKind>())
    exposed.set(name_of(a), Tree(t.exposed[a]));
  all.set("compute_s", std::move(compute));
  all.set("recomputation_s", Tree(t.recomputation));
  all.set("optimizer_s", Tree(t.optimizer));
  all.set("exposed_s", std::move(exposed));
  all.set("bubble_s", Tree(t.bubble));
  all.set("host_s", Tree(t.host));
  return all;
}

}  // namespace

std::string peak_text(const Prediction& p) {
  return fmt::format("{} peak", p.peak_dtype == DType::kF32 ? "fp32" : "16-bit");
}

std::vector<std::pair<std::string, double>> named_parts(const Prediction& p) {
  std::vector<std::pair<std::string, double>> parts;
  for (const Part& part : parts_of(p.parts))
    parts.emplace_back(kPartNames[part.kind], part.seconds);
  return parts;
}

bool fits(const Prediction& p, const Hardware& hardware) {
  return std::all_of(p.stages.begin(), p.stages.end(), [&](const StagePrediction& s) {
    return has_room(hardware.device, {s.memory.arena, s.memory.host, s.memory.communicators});
  });
}

// GEMMs are the first of the parts; the largest other part is compared with a third of them.
std::string limit_of(const Prediction& p, const Hardware& hardware) {
  const std::vector<Part> parts = parts_of(p.parts);
  const Part& worst =
      *std::max_element(parts.begin() + 1, parts.end(),
                        [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
  const char* const name = kPartNames[worst.kind];
  const auto percent = std::lround(100 * worst.seconds / p.step_s);
  if (p.parts.matrix() > 3 * worst.seconds)
    return fmt::format("the matrix rate: GEMMs reach {:.0f} % of {}",
                       100 * hardware.device.matrix_efficiency,
                       rate_text(p.peak_flops_per_s, "FLOP/s"));
  switch (worst.kind) {
    case StepPart::kBubble:
      return fmt::format("the pipeline bubble: stages wait for each other {} % of the step",
                         percent);
    case StepPart::kHost:
      return fmt::format("launches: the device waits {} % of the step", percent);
    case StepPart::kTensor:
    case StepPart::kData:
    case StepPart::kPipeline:
      return fmt::format("links: {} needs {} % of the step ({} within a node, {} per node)", name,
                         percent, rate_text(hardware.node.bytes_per_s, "B/s"),
                         rate_text(hardware.network.bytes_per_s, "B/s"));
    case StepPart::kSweeps:
      return fmt::format("memory bandwidth: element-wise ops need {} % of the step", percent);
    default:
      return fmt::format("{}: {} % of the step", name, percent);
  }
}

// llama2-7b on 64 …   fits: … of … GiB
// step … · … per device (… % of the … peak, … with recomputation) · … tokens/s
//   GEMMs             61.2 %  ████████████▎       parts of at least 0.5 %, largest first
// memory … · limited by: …
std::string page(const Prediction& p, const Hardware& hardware, const Subject& subject) {
  std::string out = fmt::format(
      "{} on {} {}   {}\n", subject.model, p.devices, hardware.device.name,
      fits(p, hardware) ? fmt::format("fits: {} of {:.1f} GiB", bytes_text(p.fullest().peak_bytes),
                                      gib(usable_bytes(hardware.device)))
                        : "does not fit");
  out +=
      fmt::format("step {} · {} per device ({} of the {}, {} with recomputation) · {} tokens/s{}\n",
                  step_text(p.step_s), rate_text(p.mfu() * p.peak_flops_per_s, "FLOP/s"),
                  percent_text(p.mfu()), peak_text(p), percent_text(p.hfu()),
                  amount_text(p.tokens_per_s()), budget(p, subject.token_budget));
  std::vector<Part> parts = parts_of(p.parts);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  double rest = 0;
  for (const Part& part : parts) {
    const double share = part.seconds / p.step_s;
    if (share < 0.005)
      rest += part.seconds;
    else
      out += fmt::format("  {:16} {:5.1f} %  {}\n", kPartNames[part.kind], 100 * share, bar(share));
  }
  if (rest > 0) out += fmt::format("  {:16} {:5.1f} %\n", "rest", 100 * rest / p.step_s);
  out += memory_line(p, hardware) + '\n' + optimizer_line(p);
  return out + fmt::format("limited by: {}\n", limit_of(p, hardware));
}

Tree as_tree(const Prediction& p, const Hardware& hardware, const compile::Layout& layout) {
  Tree t;
  t.set("step_s", Tree(p.step_s));
  t.set("tokens_per_s", Tree(p.tokens_per_s()));
  t.set("mfu", Tree(p.mfu()));
  t.set("hfu", Tree(p.hfu()));
  t.set("memory", memory_tree(p.fullest()));
  t.set("bubble", Tree(p.bubble()));
  t.set("exposed_communication_s", Tree(p.parts.exposed_s()));
  t.set("usd_per_million_tokens",
        p.usd_per_device_hour > 0 ? Tree(p.usd_per_million_tokens()) : Tree());
  t.set("usd_per_device_hour", p.usd_per_device_hour > 0 ? Tree(p.usd_per_device_hour) : Tree());
  t.set("layout", to_tree(layout));
  t.set("fits", Tree(fits(p, hardware)));
  t.set("devices", Tree(p.devices));
  t.set("tokens", Tree(p.tokens));
  t.set("parts", parts_tree(p.parts));
  Tree flops;
  flops.set("model", Tree(p.model_flops));
  flops.set("hardware", Tree(p.hardware_flops));
  flops.set("square", Tree(p.square_flops));
  flops.set("counter", Tree(p.counter_flops));
  t.set("flops", std::move(flops));
  Tree stages = Tree::list();
  for (const StagePrediction& s : p.stages) {
    Tree stage;
    stage.set("memory", memory_tree(s));
    stage.set("parts", parts_tree(s.parts));
    stage.set("optimizers", optimizers_tree(s));
    stages.push(std::move(stage));
  }
  t.set("stages", std::move(stages));
  return t;
}

}  // namespace tessera::plan
