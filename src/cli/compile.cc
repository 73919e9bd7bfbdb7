// tessera compile RUN [--print|--text|--check|--stages|--after PASS|--timings|--timeline text|svg]
// [--rank N], compile --check-text FILE and compile --passes
#include "compile/compile.h"

#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "cli/checkpoint_file.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "compile/check/check.h"
#include "compile/passes.h"
#include "compile/schedule/timeline.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/program.h"
#include "ir/summary.h"
#include "train/run_programs.h"

namespace tessera::cli {
namespace {

// A program of one stage, and the file that it came from.
struct Stage {
  std::string file;
  Program program;
};

// Reads the files and returns their programs in stage order. Throws Error unless there is exactly
// one per stage.
std::vector<Program> read_stages(const std::vector<std::string>& files) {
  std::vector<Stage> stages;
  for (const std::string& file : files)
    stages.push_back({file, parse_program(read_file(file), file)});
  const Stage& first = stages[0];
  for (const Stage& s : stages)
    if (s.program.mesh != first.program.mesh || s.program.name != first.program.name)
      throw Error(
          "--check-text: {} and {} are not stages of one program: their names or meshes differ.",
          first.file, s.file);
  const int64_t expected = first.program.mesh[AxisKind::kPipeline];
  if (std::ssize(stages) != expected)
    throw Error(
        "--check-text: got {} files for a pipeline of {} stages. Give one per stage, as "
        "`tessera compile RUN --text --rank N` prints them.",
        stages.size(), expected);
  std::vector<Program> programs(stages.size());
  std::vector<std::string> file_of(stages.size());
  for (Stage& s : stages) {
    const size_t at = s.program.stage;
    if (at >= stages.size() || !file_of[at].empty())
      throw Error("--check-text: {} is of stage {}, {}.", s.file, at,
                  at < stages.size() ? "as is " + file_of[at]
                                     : fmt::format("expected 0 to {}", expected - 1));
    file_of[at] = s.file;
    programs[at] = std::move(s.program);
  }
  return programs;
}

// Prints the size of the programs and the result of prove().
void print_verdict(std::span<const Program> programs, const std::vector<std::string>& findings) {
  size_t calls = 0, buffers = 0;
  for (const Program& p : programs) {
    calls += p.schedule.size();
    buffers += p.buffers.size();
  }
  fmt::print("check     {} calls on {} buffers: {}\n", calls, buffers,
             findings.empty() ? "data flow verified, no deadlock"
                              : fmt::format("{} findings", findings.size()));
}

// Prints the findings to stderr and returns the exit code: 0 if there are none.
int print_findings(const std::vector<std::string>& findings) {
  for (const std::string& f : findings) fmt::print(stderr, "  {}\n", f);
  return findings.empty() ? 0 : 1;
}

// Reads one program per pipeline stage, in any order, and prints the findings of prove(). Returns
// the exit code: 0 if there are none. Throws Error for a text that is not a program (with line and
// column), for missing stages, and for programs whose names or meshes differ.
//
// The rules of ops abort on operands that no pass creates, but a text may contain such operands. So
// the check runs in a child process, and the parent reports how it ended.
int check_text(const std::vector<std::string>& files) {
  const std::vector<Program> stages = read_stages(files);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error("--check-text: cannot start a child process for the check.");
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const std::vector<std::string> findings = compile::prove(stages);
    print_verdict(stages, findings);
    const int code = print_findings(findings);
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw Error("--check-text: the process of the check has failed: {}.", std::strerror(errno));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  if (WTERMSIG(status) != SIGABRT)
    throw Error("--check-text: the process of the check was killed by signal {} ({}).",
                WTERMSIG(status), strsignal(WTERMSIG(status)));
  throw Error(
      "{}: the program is damaged: an op has operands that its rule does not accept (see above).",
      fmt::join(files, ", "));
}

// Returns the memory that the run of a program needs: that of the program, or of a larger one of a
// smaller step.
compile::MemoryPlan memory_of(const Program& p, const compile::CompileRequest& request,
                              const Target& target) {
  compile::MemoryPlan most = compile::memory_plan(p);
  for (const compile::CompileRequest& smaller : compile::smaller_steps(request))
    most = compile::larger_of(most, compile::memory_plan(compile::compile(smaller, target)));
  return most;
}

Tree as_tree(const Program& p, const compile::MemoryPlan& memory) {
  Tree t;
  t.set("program", Tree(p.name));
  t.set("calls", Tree(std::ssize(p.schedule)));
  t.set("arena_bytes", Tree(memory.arena));
  t.set("host_bytes", Tree(memory.host));
  // The memory that `tessera train` allocates and touches before step 1.
  t.set("plan_bytes", Tree(memory.arena + memory.host));
  t.set("live_bytes", Tree(p.live_bytes));
  t.set("state_bytes", Tree(p.state_bytes));
  return t;
}

std::string draw(const std::string& how, const compile::PipelineShape& shape) {
  if (how == "text") return compile::timeline_text(shape);
  if (how == "svg") return compile::timeline_svg(shape);
  throw UsageError("--timeline {}: expected text or svg.", how);
}

// Returns the stage of a rank; the ranks of a stage all run its program.
int64_t stage_of(const Mesh& mesh, int64_t rank) {
  if (rank < 0 || rank >= mesh.ranks())
    throw UsageError("--rank {}: the layout has ranks 0 to {}.", rank, mesh.ranks() - 1);
  return coordinates_of(mesh, rank)[AxisKind::kPipeline];
}

// Returns the Markdown table of docs/passes.md.
std::string pass_table() {
  std::string table = "| pass | level | when |\n|---|---|---|\n";
  for (const compile::Pass& p : compile::all_passes())
    table +=
        fmt::format("| [{0}](#{0}) | {1} | {2} |\n", p.name, name_of_entry(p.level), p.condition);
  return table;
}

const compile::Pass& pass_named(const std::string& name) {
  const std::span<const compile::Pass> passes = compile::passes_through(name);
  if (!passes.empty()) return passes.back();
  std::vector<std::string_view> names;
  for (const compile::Pass& p : compile::all_passes()) names.push_back(p.name);
  throw UsageError("--after {}: there is no such pass. Expected one of {}.", name,
                   fmt::join(names, ", "));
}

// Prints the state after a pass. If the condition of the pass does not hold for this run, the pass
// is skipped, and the state is the one before it.
void print_after(const compile::Pass& pass, const compile::CompileRequest& request,
                 const Target& target) {
  if (!pass.when(compile::context_of(request, target)))
    fmt::print(stderr,
               "pass {} is skipped in this run (condition: {}); this is the state before it\n",
               pass.name, pass.condition);
  fmt::print("{}", compile::print(compile::compile_through(pass.name, request, target)));
}

// Prints the time of each pass: the time since the end of the previous pass.
void print_timings(const compile::CompileRequest& request, const Target& target, bool json) {
  using Clock = std::chrono::steady_clock;
  Tree seconds;
  double all = 0;
  Clock::time_point last = Clock::now();
  const auto note = [&](const compile::Pass& pass, const compile::State&) {
    const Clock::time_point now = Clock::now();
    const double took = std::chrono::duration<double>(now - last).count();
    last = now;
    all += took;
    seconds.set(std::string(pass.name), Tree(took));
    if (!json) fmt::print("{:<22} {:>10.3f} ms\n", pass.name, 1e3 * took);
  };
  compile::compile_through(compile::all_passes().back().name, request, target, note);
  if (json)
    fmt::print("{}\n", to_json(seconds));
  else
    fmt::print("{:<22} {:>10.3f} ms\n", "all passes", 1e3 * all);
}

struct Choices {
  std::string run, timeline, after;
  std::vector<std::string> overrides, texts;
  int64_t rank = 0;
  bool summary = false, text = false, stages = false, check = false;
  bool passes = false, timings = false, json = false;
};

void declare(Arguments& a, Choices& c) {
  a.optional(c.run, "RUN", "the run file; required except with --passes and --check-text");
  a.many(c.overrides, "key=value", "overrides of run-file keys");
  a.flag(c.summary, "--print", "summary: segments with cost, buffers, calls and memory");
  a.flag(c.text, "--text", "the whole program as text");
  a.flag(c.stages, "--stages", "differences between the pipeline stages");
  a.option(c.rank, "--rank", "N", "rank for --print, --text, --after and --timings");
  a.option(c.timeline, "--timeline", "text|svg", "timeline of the pipeline, as text or SVG");
  a.flag(c.check, "--check", "verify the program: data flow, races, deadlocks");
  a.option(c.texts, "--check-text", "FILE",
           "verify a program that --text printed (repeatable, one per pipeline stage)");
  a.option(c.after, "--after", "PASS", "text of the graph or program after this pass");
  a.flag(c.timings, "--timings", "compile time of each pass");
  a.flag(c.passes, "--passes", "table of all passes in their order, in Markdown");
  a.json(c.json);
}

// Throws UsageError if more than one mode is given. --check, --print, --text and --stages are one
// mode and can be combined.
void check_modes(const Choices& c) {
  const bool shows = c.summary || c.text || c.stages || c.check;
  std::vector<std::string_view> modes;
  const auto add = [&](bool given, std::string_view name) {
    if (given) modes.push_back(name);
  };
  add(c.passes, "--passes");
  add(!c.texts.empty(), "--check-text");
  add(!c.timeline.empty(), "--timeline");
  add(!c.after.empty(), "--after");
  add(c.timings, "--timings");
  add(shows, "--print, --text, --stages or --check");
  if (modes.size() > 1)
    throw UsageError("compile: {} cannot be combined. Remove all but one.",
                     fmt::join(modes, " and "));
  if (c.json && !modes.empty() && !c.timings && !shows)
    throw UsageError("compile: {} does not support --json.", modes[0]);
}

// Compiles all stages, because prove() needs all ranks that participate in a transfer, and shows
// the program of one rank. Returns the exit code.
int show_programs(const Choices& c, const compile::CompileRequest& request, const Target& target) {
  const std::vector<Program> stages = compile::compile_stages(request, target);
  const int64_t stage = stage_of(stages[0].mesh, c.rank);
  const Program& p = stages[stage];
  const std::vector<std::string> wrong = compile::prove(stages, &target);
  if (c.json) {
    compile::CompileRequest own = request;
    own.stage = stage;
    fmt::print("{}\n", to_json(as_tree(p, memory_of(p, own, target))));
  }
  if (c.text && !c.json) fmt::print("{}", print(p));
  if (c.summary && !c.json) fmt::print("{}", summary(p));
  if (c.stages && !c.json) fmt::print("{}", summary(stages));
  if (!c.json && !c.text) print_verdict({&p, 1}, wrong);
  return print_findings(wrong);
}

}  // namespace

int verb_compile(Args args) {
  Choices choices;
  Arguments a("compile", "Compile the training step of a run, and show or verify it.",
              "tessera compile run.yaml --print");
  declare(a, choices);
  if (!a.parse(args)) return 0;
  check_modes(choices);
  if (choices.passes) {
    fmt::print("{}", pass_table());
    return 0;
  }
  if (!choices.texts.empty() && !choices.run.empty())
    throw UsageError("compile: --check-text reads programs instead of a run. Remove {}.",
                     choices.run);
  if (!choices.texts.empty()) return check_text(choices.texts);
  if (choices.run.empty())
    throw UsageError(
        "compile: RUN is required.\nUsage: tessera compile RUN [key=value …] "
        "[option …]   (tessera compile --help)");
  const compile::Pass* const after = choices.after.empty() ? nullptr : &pass_named(choices.after);
  config::RunConfig config =
      open_run(choices.run, choices.overrides, false, config::DataUse::kIgnored);
  require_layout(config, "compile");
  const CpuFeatures cpu = read_cpu_features();
  config.precision = train::resolve_precision(config.precision, cpu);
  train::resolve_sizes(config);
  runtime::PreparedKernels kernels(cpu, threads_or_all(config.run.threads));
  compile::CompileRequest request = config::compile_request(config, compile::ProgramKind::kTrain);
  if (!choices.timeline.empty()) {
    fmt::print("{}", draw(choices.timeline, compile::pipeline_of(request)));
    return 0;
  }
  if (after == nullptr && !choices.timings)
    return show_programs(choices, request, kernels.target());
  request.stage = stage_of(
      compile::mesh_of(request.layout, compile::head_copies(request.model, request.layout)),
      choices.rank);
  if (after != nullptr)
    print_after(*after, request, kernels.target());
  else
    print_timings(request, kernels.target(), choices.json);
  return 0;
}

}  // namespace tessera::cli
