// tessera report RUN [RUN …] [--out report.html] [--cluster C] [--force]
//
// Reads run directories, or the best trials of a sweep, and writes one self-contained HTML page
// about them (report/page.h). A run may still be running: the page shows what is recorded so far.
// The step of the first run is simulated on the machine of --cluster or of its layout.cluster, for
// comparison with the traced step.
#include <filesystem>

#include "cli/arguments.h"
#include "cli/machine_files.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "compile/compile.h"
#include "config/run_request.h"
#include "data/source_list.h"
#include "ir/names.h"
#include "plan/explain.h"
#include "plan/simulate.h"
#include "report/page.h"

namespace tessera::cli {
namespace {

report::Planned planned_step(const std::string& directory, const std::string& cluster) {
  config::RunConfig config = open_run(directory, {}, false, config::DataUse::kIgnored);
  require_layout(config, "report --cluster");
  const plan::Hardware hardware = open_cluster(cluster);
  const MachineTarget machine = resolve_for(hardware, config);
  const plan::Software software;
  const std::vector<Program> stages = compile::compile_stages(
      config::compile_request(config, compile::ProgramKind::kTrain), machine.target);
  const plan::Prediction p = plan::simulate(stages, hardware, software);
  report::Planned planned;
  planned.machine = cluster;
  planned.step_s = p.step_s;
  for (const OpKind k : Enumerators<OpKind>())
    if (p.parts.compute[k] > 0) planned.parts.emplace_back(name_of(k), p.parts.compute[k]);
  planned.parts.emplace_back(name_of(report::Activity::kRecompute), p.parts.recomputation);
  planned.parts.emplace_back(name_of(report::Activity::kUpdate), p.parts.optimizer);
  planned.parts.emplace_back(report::kWaiting, p.parts.exposed_s() + p.parts.bubble + p.parts.host);
  planned.timeline_svg = plan::draw(stages, plan::timeline_of(stages, hardware, software));
  planned.timeline_colors = plan::colors_of_draw();
  return planned;
}

// Simulates the step of the first run on the machine of its layout.cluster. Returns nothing if
// there is no such file or name. An invalid one is only a warning, since the user did not ask for
// it.
std::optional<report::Planned> planned_on_own_cluster(const report::RunData& run,
                                                      const std::string& directory) {
  const std::string cluster = report::setting(run, "layout.cluster");
  if (cluster.empty() || !has_cluster(cluster)) return std::nullopt;
  try {
    return planned_step(directory, cluster);
  } catch (const Error& e) {
    fmt::print(stderr, "tessera: warning: the page has no planned step: {}\n", printable(e.what()));
    return std::nullopt;
  }
}

constexpr size_t kMostTrials = 6;  // whose curves are shown

// Returns the directories of the best trials of a sweep, whose curves the page compares.
std::vector<std::string> best_trials(const report::SweepData& sweep) {
  std::vector<std::string> directories;
  for (const report::SweepTrial& trial : sweep.trials)
    if (directories.size() < kMostTrials && std::filesystem::is_directory(trial.directory))
      directories.push_back(trial.directory.string());
  if (directories.empty()) throw Error("no trial of the sweep has a run directory yet.");
  return directories;
}

}  // namespace

int verb_report(Args args) {
  std::vector<std::string> directories;
  std::string out = "report.html", cluster;
  bool force = false;
  Arguments a("report",
              "Write an HTML page about one run, or a comparison of several: curves, speed, "
              "memory, events, configuration.",
              "tessera report runs/first runs/second --out report.html");
  a.many(directories, "RUN", "run directories, or the directory of one sweep", 1);
  a.option(out, "--out", "FILE", "the page");
  a.option(cluster, "--cluster", "FILE",
           "machine whose simulated step is compared with the trace: a file, or one of "
           "configs/clusters; default: layout.cluster of the run, if it is there");
  add_force(a, force);
  if (!a.parse(args)) return 0;
  data::refuse_existing(out, force);
  report::PageOptions options{version(), std::nullopt, std::nullopt};
  if (directories.size() == 1 && report::is_sweep(directories[0]))
    directories = best_trials(options.sweep.emplace(report::read_sweep(directories[0])));
  std::vector<report::RunData> runs;
  for (const std::string& directory : directories) {
    runs.push_back(report::read_run(directory));
    for (const std::string& note : runs.back().left_out)
      fmt::print(stderr, "tessera: warning: {}\n", printable(note));
    if (const std::string warning = report::order_warning(runs.back()); !warning.empty())
      fmt::print(stderr, "tessera: warning: {}\n", printable(warning));
  }
  options.planned = cluster.empty() ? planned_on_own_cluster(runs.front(), directories.front())
                                    : std::optional(planned_step(directories.front(), cluster));
  const std::string page = report::page(runs, options);
  write_file(out, page);
  show("{}: {}, {}\n", out, counted(std::ssize(runs), "run"), bytes_text(std::ssize(page)));
  return 0;
}

}  // namespace tessera::cli
