// tessera compile RUN [--print|--text|--check]
#include "base/tree.h"
#include "cli/checkpoint_file.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "compile/check.h"
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
  t.set("plan_bytes", Tree(p.bytes));  // what `tessera train` takes and touches before step 1
  t.set("live_bytes", Tree(p.live_bytes));
  t.set("state_bytes", Tree(p.state_bytes));
  return t;
}

}  // namespace

int verb_compile(Args args) {
  std::string run;
  std::vector<std::string> overrides;
  bool print_summary = false, print_text = false, check_only = false, json = false;
  Arguments a("compile", "Compiles the training step of a run and shows or checks it.",
              "tessera compile run.yaml --print");
  a.required(run, "RUN", "the run file");
  a.many(overrides, "key=value", "replaces what the run file says");
  a.flag(print_summary, "--print", "segments with cost, frames, calls and memory on a page");
  a.flag(print_text, "--text", "the whole program as text");
  a.flag(check_only, "--check", "prove that every read finds what was meant");
  a.json(json);
  if (!a.parse(args)) return 0;
  RunConfig config = open_run(run, overrides);
  const CpuFeatures cpu = read_cpu_features();
  config.precision = resolve_precision(config.precision, cpu);
  resolve_sizes(config);
  Library library(cpu, threads_or_all(config.run.threads));
  const std::vector<Program> stages =
      compile_stages(compile_request(config, Purpose::kTrain), library.target());
  const Program& p = stages[0];
  const std::vector<std::string> wrong = prove(stages);
  if (json) fmt::print("{}\n", to_json(as_tree(p)));
  if (print_text && !json) fmt::print("{}", print(p));
  if (print_summary && !json) fmt::print("{}", summary(p));
  if (!json && !print_text)
    fmt::print("check     {} calls on {} frames: {}\n", p.schedule.size(), p.frames.size(),
               wrong.empty() ? "every read finds what was meant, no wait can cycle"
                             : fmt::format("{} findings", wrong.size()));
  for (const std::string& w : wrong) fmt::print(stderr, "  {}\n", w);
  return wrong.empty() ? 0 : 1;
}

}  // namespace tessera
