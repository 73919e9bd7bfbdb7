// tessera compile RUN [--print|--text|--check|--stages|--timeline text|svg] [--rank N]
#include "base/tree.h"
#include "cli/checkpoint_file.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "compile/check.h"
#include "compile/timeline.h"
#include "ir/print.h"
#include "ir/summary.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

Tree as_tree(const Program& p) {
  Tree t;
  t.set("program", Tree(p.name));
  t.set("calls", Tree(static_cast<int64_t>(p.schedule.size())));
  t.set("arena_bytes", Tree(p.bytes));
  t.set("host_bytes", Tree(p.host_bytes));
  // What `tessera train` takes and touches before step 1.
  t.set("plan_bytes", Tree(p.bytes + p.host_bytes));
  t.set("live_bytes", Tree(p.live_bytes));
  t.set("state_bytes", Tree(p.state_bytes));
  return t;
}

std::string draw(const std::string& how, const PipelineShape& shape) {
  if (how == "text") return timeline_text(shape);
  if (how == "svg") return timeline_svg(shape);
  throw UsageError("--timeline {}: possible are text and svg.", how);
}

// The ranks of a stage all run its program.
const Program& program_of(const std::vector<Program>& stages, int64_t rank) {
  const Mesh& mesh = stages[0].mesh;
  if (rank < 0 || rank >= mesh.ranks())
    throw UsageError("--rank {}: the layout has ranks 0 to {}.", rank, mesh.ranks() - 1);
  return stages[static_cast<size_t>(coordinates_of(mesh, rank)[AxisKind::kPipeline])];
}

}  // namespace

int verb_compile(Args args) {
  std::string run;
  std::vector<std::string> overrides;
  std::string timeline;
  int64_t rank = 0;
  bool print_summary = false, print_text = false, print_stages = false, check_only = false;
  bool json = false;
  Arguments a("compile", "Compiles the training step of a run and shows or checks it.",
              "tessera compile run.yaml --print");
  a.required(run, "RUN", "the run file");
  a.many(overrides, "key=value", "replaces what the run file says");
  a.flag(print_summary, "--print", "segments with cost, frames, calls and memory on a page");
  a.flag(print_text, "--text", "the whole program as text");
  a.flag(print_stages, "--stages", "where the stages of the pipeline differ");
  a.option(rank, "--rank", "N", "whose program --print and --text show");
  a.option(timeline, "--timeline", "text|svg", "draw who computes what when");
  a.flag(check_only, "--check", "verify the program: data flow, races, deadlocks");
  a.json(json);
  if (!a.parse(args)) return 0;
  RunConfig config = open_run(run, overrides, false, DataUse::kIgnored);
  require_layout(config, "compile");
  const CpuFeatures cpu = read_cpu_features();
  config.precision = resolve_precision(config.precision, cpu);
  resolve_sizes(config);
  PreparedKernels kernels(cpu, threads_or_all(config.run.threads));
  const CompileRequest request = compile_request(config, Purpose::kTrain);
  if (!timeline.empty()) {
    fmt::print("{}", draw(timeline, pipeline_of(request)));
    return 0;
  }
  const std::vector<Program> stages = compile_stages(request, kernels.target());
  const Program& p = program_of(stages, rank);
  const std::vector<std::string> wrong = prove(stages);
  if (json) fmt::print("{}\n", to_json(as_tree(p)));
  if (print_text && !json) fmt::print("{}", print(p));
  if (print_summary && !json) fmt::print("{}", summary(p));
  if (print_stages && !json) fmt::print("{}", summary(stages));
  if (!json && !print_text)
    fmt::print("check     {} calls on {} frames: {}\n", p.schedule.size(), p.frames.size(),
               wrong.empty() ? "data flow verified, no deadlock"
                             : fmt::format("{} findings", wrong.size()));
  for (const std::string& w : wrong) fmt::print(stderr, "  {}\n", w);
  return wrong.empty() ? 0 : 1;
}

}  // namespace tessera
