// tessera plan RUN --cluster C [--software S] [--search] [--json] [--svg FILE] [--html FILE]
//
// Compiles the run for every pipeline stage as training would, and simulates one step of the
// compiled programs with the figures of the machine (plan/simulate.h): nothing is executed, so the
// machine need not exist. Neighboring layouts (plan/neighbors.h) are simulated as well, to propose
// a faster one, or one that fits; --search considers all layouts (plan/search.h).
#include <filesystem>
#include <limits>

#include "base/count.h"
#include "cli/arguments.h"
#include "cli/machine_files.h"
#include "cli/plan_html.h"
#include "cli/plan_search.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "compile/compile.h"
#include "config/run_request.h"
#include "data/source_list.h"
#include "model/presets.h"
#include "plan/explain.h"
#include "plan/neighbors.h"
#include "plan/predict.h"
#include "plan/simulate.h"
#include "tensor/cpu_features.h"

namespace tessera::cli {
namespace {

constexpr size_t kProposals = 3;
constexpr int64_t kMostDevices = int64_t{1} << 20;  // more than any machine has
constexpr double kWorthwhile = 0.995;  // maximum step time of a proposal, relative to the run's

struct Plan {
  compile::CompileRequest request;
  plan::Hardware hardware;
  plan::Software software;
  Target target;
  plan::Subject subject;
  std::vector<int64_t> ramp;
};

plan::Subject subject_of(const config::RunConfig& c) {
  plan::Subject s;
  s.model = fmt::format("{} ({} layers × {}, {} parameters)", c.run.name, c.model.layers,
                        format_count(c.model.hidden),
                        amount_text(static_cast<double>(model::parameter_count(c.model))));
  s.token_budget = static_cast<double>(config::batch_shape(c, 0).samples_before(c.schedule.steps)) *
                   static_cast<double>(c.data.sequence_length);
  return s;
}

std::string memory_text(const plan::Prediction& p) {
  const int64_t host = p.host_bytes();
  return bytes_text(p.fullest().peak_bytes) +
         (host == 0 ? "" : fmt::format(" and {} on the host", bytes_text(host)));
}

// Prints the neighboring layouts that are faster.
void propose(const Plan& plan, const plan::Prediction& now) {
  const std::vector<plan::Tried> tried = plan::try_neighbors(
      plan.request, plan.hardware, plan.software, plan.target, kWorthwhile * now.step_s, plan.ramp);
  std::string text;
  for (size_t i = 0; i < tried.size() && i < kProposals; ++i) {
    const double gain = now.step_s - tried[i].prediction.step_s;
    text += fmt::format("{}{} (−{}, {})", text.empty() ? "" : ", ", tried[i].keys, step_text(gain),
                        memory_text(tried[i].prediction));
  }
  show("try: {}\n", text.empty() ? "no neighboring layout is faster" : text);
}

// Throws Error for a run that does not fit. The message lists neighboring layouts that fit, or, if
// none does, the minimum number of devices.
[[noreturn]] void refuse(const Plan& plan, const plan::Prediction& p) {
  const compile::MemoryPlan& m = p.fullest().memory;
  const plan::DeviceFigures& d = plan.hardware.device;
  std::string text = fmt::format(
      "this run needs {} on stage {}; the device has {}{}.\n  activations {} · optimizer {} · "
      "weights {} · gradients {} · outside the arena {}",
      bytes_text(p.fullest().peak_bytes), p.fullest_stage,
      bytes_text(static_cast<int64_t>(plan::usable_bytes(d))),
      d.headroom > 0 ? fmt::format(", excluding {} headroom", percent_text(d.headroom)) : "",
      bytes_text(m.activations), bytes_text(m.optimizer), bytes_text(m.weights),
      bytes_text(m.gradients), bytes_text(plan::outside_bytes(d, m.communicators)));
  if (p.host_bytes() > 0)
    text +=
        fmt::format(" · host memory {}, with {} available per device", bytes_text(p.host_bytes()),
                    bytes_text(static_cast<int64_t>(d.host_memory_bytes)));
  const std::vector<plan::Tried> tried =
      plan::try_neighbors(plan.request, plan.hardware, plan.software, plan.target,
                          std::numeric_limits<double>::infinity(), plan.ramp);
  bool offloads = false;
  for (size_t i = 0; i < tried.size(); ++i) {
    // Shows the fastest layouts, and one that offloads, which needs no recomputation, even if the
    // link to the host is slow.
    const bool offload = tried[i].keys.find("layout.offload") != std::string::npos;
    if (i >= kProposals && (offloads || !offload)) continue;
    offloads = offloads || offload;
    text +=
        fmt::format("\n  {} {:60} {:>10}, {:+.0f} % time", i == 0 ? "It fits with" : "            ",
                    tried[i].keys, memory_text(tried[i].prediction),
                    100 * (tried[i].prediction.step_s / p.step_s - 1));
  }
  if (!tried.empty()) throw Error("{}", text);
  const auto least = plan::least_devices(plan.request, plan.hardware, plan.software, plan.target);
  if (!least)
    throw Error("{}\n  It does not fit on any number of devices: a layer is too large for a node.",
                text);
  throw Error(
      "{}\n  No neighboring layout fits. The smallest that fits: {} devices, layout.tensor={} "
      "layout.pipeline={} layout.recompute=full batch.micro=1, {} per device.",
      text, least->devices, least->tensor, least->pipeline, bytes_text(least->peak_bytes));
}

struct Outputs {
  std::string svg, html;  // files; empty: not written
  bool json = false, force = false;
};

// Throws UsageError for files that would replace the run file or each other.
void check_outputs(const std::string& run, const Outputs& outputs) {
  for (const std::string& file : {outputs.svg, outputs.html}) {
    std::error_code absent;
    if (std::filesystem::equivalent(file, run, absent))
      throw UsageError("plan: {} is the run file and is not replaced. Choose another path.", file);
    if (!file.empty()) data::refuse_existing(file, outputs.force);
  }
  if (!outputs.svg.empty() && outputs.svg == outputs.html)
    throw UsageError("plan --svg and --html: both are {}. Choose two paths.", outputs.svg);
}

// Writes a file and prints its name and size, unless standard output is JSON.
void write_output(const std::string& file, const std::string& content, bool quiet) {
  write_file(file, content);
  if (!quiet) show("{}: {}\n", file, bytes_text(static_cast<int64_t>(content.size())));
}

// Throws UsageError for options that contradict each other.
void check_flags(bool searches, int64_t devices, bool offload, const Outputs& outputs) {
  if (devices > 0 && !searches)
    throw UsageError(
        "plan --devices {}: requires --search. Without it, the layout of the run determines the "
        "number of devices.",
        devices);
  if (offload && !searches)
    throw UsageError("plan --offload: requires --search. Or set layout.offload=activations.");
  if (searches && !outputs.svg.empty())
    throw UsageError("plan --svg shows one layout. Search first, then use --svg with a layout.");
}

// Searches all layouts. The page is about the fastest one, and compares those that were simulated.
void search_all(const Plan& plan, const plan::SearchRequest& asked, const Outputs& outputs) {
  const LayoutSearchRun searched =
      search_layouts(asked, plan.target, plan.hardware, plan.software, outputs.json);
  if (outputs.html.empty()) return;
  const plan::RankedLayout& best = searched.result.best[0];
  const std::vector<Program> stages =
      compile::compile_stages(plan::request_of(asked, best.candidate), plan.target);
  report::PlanPage page =
      page_of_step(plan.subject, stages, best.prediction, plan.hardware, plan.software);
  page.about += " · the fastest layout: " + keys_of(best.candidate);
  page.search = searched_layouts(searched);
  write_output(outputs.html, report::plan_page(page), outputs.json);
}

// Predicts a step of the run's own layout. Returns the exit code.
int predict_step(const Plan& plan, const Outputs& outputs) {
  const compile::CompileRequest request = plan::as_compiled_by(plan.software, plan.request);
  const std::vector<Program> stages = compile::compile_stages(request, plan.target);
  plan::Prediction p = plan::simulate(stages, plan.hardware, plan.software);
  plan::add_smaller_steps(p, request, plan.hardware, plan.target);
  if (!outputs.svg.empty())
    write_output(outputs.svg,
                 plan::draw(stages, plan::timeline_of(stages, plan.hardware, plan.software)),
                 outputs.json);
  if (!outputs.html.empty())
    write_output(
        outputs.html,
        report::plan_page(page_of_step(plan.subject, stages, p, plan.hardware, plan.software)),
        outputs.json);
  if (outputs.json) {
    fmt::print("{}\n", to_json(plan::as_tree(p, plan.hardware, plan.request.layout)));
    return plan::fits(p, plan.hardware) ? 0 : 1;
  }
  if (!plan::fits(p, plan.hardware)) refuse(plan, p);
  show("{}", plan::page(p, plan.hardware, plan.subject));
  propose(plan, p);
  return 0;
}

}  // namespace

int verb_plan(Args args) {
  std::string run, cluster, software;
  Outputs outputs;
  std::vector<std::string> overrides, figures;
  bool searches = false, offload = false;
  int64_t devices = 0;
  Arguments a("plan", "Predict the time, memory and cost of a run on another machine.",
              "tessera plan run.yaml --cluster a100-80gb");
  a.required(run, "RUN", "the run file, or the name of a recipe in configs/recipes");
  a.many(overrides, "key=value", "overrides of run-file keys");
  a.option(cluster, "--cluster", "FILE", "the machine: a file or name in configs/clusters", true);
  a.option(software, "--software", "FILE", "software other than Tessera, from configs/software");
  a.option(figures, "--set", "KEY=VALUE", "override of a figure of the machine");
  a.option(outputs.svg, "--svg", "FILE", "SVG file with a timeline of computation and memory");
  a.option(outputs.html, "--html", "FILE",
           "HTML page with time, memory and timeline; for --search also the layouts");
  a.flag(searches, "--search", "find the fastest of all layouts for a number of devices");
  a.flag(offload, "--offload", "for --search: also consider layouts with layout.offload");
  a.option(devices, "--devices", "N", "devices for --search; 0: those of the run's layout");
  add_force(a, outputs.force);
  a.json(outputs.json);
  if (!a.parse(args)) return 0;
  if (devices < 0 || devices > kMostDevices)
    throw UsageError("plan --devices {}: expected 1 to {}, or 0 for the run's layout.", devices,
                     format_count(kMostDevices));
  config::RunConfig config = open_run(run, overrides, false, config::DataUse::kIgnored);
  Plan plan;
  plan.hardware = open_cluster(cluster, figures);
  if (!software.empty()) plan.software = open_software(software);
  const MachineTarget machine = resolve_for(plan.hardware, config);
  plan.target = machine.target;
  plan.request = config::compile_request(config, compile::ProgramKind::kTrain);
  plan.subject = subject_of(config);
  plan.ramp = config.batch.warmup_sizes;
  searches = searches || config.layout_search.search;
  check_flags(searches, devices, offload, outputs);
  check_outputs(run, outputs);
  if (!searches) return predict_step(plan, outputs);
  const int64_t ranks = devices > 0 ? devices : compile::mesh_of(config.layout).ranks();
  plan::SearchRequest asked = search_request(config, plan.software, ranks);
  asked.offload = offload;
  // The kernels of this machine answer one thread at a time.
  if (machine.kernels == nullptr) asked.threads = read_cpu_features().cores;
  search_all(plan, asked, outputs);
  return 0;
}

}  // namespace tessera::cli
