// tessera submit RUN --nodes N [--tasks-per-node N] [--time T] [--print] [key=value …]
//
// Writes an sbatch script, which runs `tessera launch` with srun inside the allocation, and submits
// it. The run file is checked first, so that mistakes are reported now and not after hours in the
// queue. The script is kept in the run directory, so that users can read, edit and resubmit it.
#include "base/tree.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "launch/child.h"
#include "launch/sbatch.h"

namespace tessera::cli {
namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

void require_range(const char* option, int64_t value, int64_t least) {
  constexpr int64_t kMost = 1'000'000;
  if (value < least || value > kMost)
    throw UsageError("submit: {} is {}, expected {} to {}", option, value, least, kMost);
}

// Submits the script and returns the output of sbatch. Throws Error with its message if it rejects
// the script.
std::string submit(const std::string& script) {
  launch::CommandOutput sbatch = launch::run_command({"sbatch", script});
  if (sbatch.code != 0)
    throw Error(
        "sbatch rejected {} (exit code {}):\n{}You can edit the script and submit it yourself.",
        script, sbatch.code, sbatch.err);
  fmt::print(stderr, "{}", printable(sbatch.err));
  std::string& said = sbatch.out;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said;
}

void submit_job(const Path& folder, const std::string& script, bool json) {
  const Path file = folder / "job.sbatch";
  std::filesystem::create_directories(folder);
  write_file(file, script);
  const std::string said = submit(file.string());
  if (json) {
    Tree t;
    t.set("script", Tree(file.string()));
    t.set("sbatch", Tree(said));
    fmt::print("{}\n", to_json(t));
    return;
  }
  show("{}\nscript    {}\noutput    {}/slurm-JOB.txt, per rank: {}/ranks/\n", said, file.string(),
       folder.string(), folder.string());
}

struct SubmitArguments {
  std::string run, mpi = "pmix", srun;
  std::vector<std::string> overrides;
  launch::BatchJob job;  // except the members that job_of() sets
  int64_t nodes = 1, tasks = 1, cpus = 0, gpus = 0, grace_s = 180, requeues = 3, restarts = 3;
  bool print = false, json = false;
};

bool read_arguments(Args args, SubmitArguments& s) {
  Arguments a("submit", "Write the batch script of a SLURM job for a run, and submit it.",
              "tessera submit run.yaml --nodes 2 --tasks-per-node 4 --time 4:00:00 layout.data=8");
  a.required(s.run, "RUN", "the run file");
  a.many(s.overrides, "key=value", "overrides of run-file keys");
  a.option(s.nodes, "--nodes", "N", "number of nodes", true);
  a.option(s.tasks, "--tasks-per-node", "N", "ranks per node");
  a.option(s.cpus, "--cpus-per-task", "N", "cores per rank (0: SLURM's default)");
  a.option(s.gpus, "--gpus-per-node", "N", "GPUs per node");
  a.option(s.job.time, "--time", "TIME", "time limit, such as 4:00:00");
  a.option(s.job.partition, "--partition", "NAME", "partition");
  a.option(s.job.account, "--account", "NAME", "account to charge");
  a.option(s.job.more, "--sbatch", "OPTION", "further sbatch option, such as --mem=0 (repeatable)");
  a.option(s.job.setup, "--setup", "COMMAND",
           "shell command to run first, such as 'module load openmpi' (repeatable)");
  a.option(s.srun, "--srun", "ARGUMENTS", "further srun arguments, such as --container-image=I");
  a.option(s.grace_s, "--grace", "SECONDS", "time before the limit at which to save and exit");
  a.option(s.requeues, "--requeue", "N", "maximum number of requeues after a failure");
  a.option(s.restarts, "--restart", "N", "maximum number of restarts per job after a failure");
  a.option(s.mpi, "--mpi", "pmix|pmi2", "process management interface for srun");
  a.flag(s.print, "--print", "print the script and do not submit it");
  a.json(s.json);
  if (!a.parse(args)) return false;
  require_range("--nodes", s.nodes, 1);
  require_range("--tasks-per-node", s.tasks, 1);
  require_range("--cpus-per-task", s.cpus, 0);
  require_range("--gpus-per-node", s.gpus, 0);
  require_range("--grace", s.grace_s, 0);
  require_range("--requeue", s.requeues, 0);
  require_range("--restart", s.restarts, 0);
  return true;
}

// Throws Error if the number of ranks that the job starts differs from that of the layout.
void require_ranks(const SubmitArguments& s, const config::RunConfig& config) {
  if (config.layout_search.search) return;  // the layout is found when the ranks start
  const compile::Layout& l = config.layout;
  const int64_t model = l.context * l.tensor * l.pipeline, ranks = compile::mesh_of(l).ranks();
  const int64_t started = s.nodes * s.tasks;
  if (ranks == started) return;
  const std::string fit =
      started % model == 0
          ? fmt::format("layout.data={}", started / model)
          : fmt::format("a number of ranks that is a multiple of {} (context x tensor x pipeline)",
                        model);
  throw Error(
      "the layout has {} rank{} (data {} x context {} x tensor {} x pipeline {}), but --nodes {} x "
      "--tasks-per-node {} starts {}. Use {}, or change --nodes and --tasks-per-node.",
      ranks, ranks == 1 ? "" : "s", l.data, l.context, l.tensor, l.pipeline, s.nodes, s.tasks,
      started, fit);
}

launch::BatchJob job_of(const SubmitArguments& s, const config::RunConfig& config) {
  launch::BatchJob job = s.job;
  job.name = config.run.name;
  job.nodes = s.nodes;
  job.tasks_per_node = s.tasks;
  job.cpus_per_task = s.cpus;
  job.gpus_per_node = s.gpus;
  job.folder = absolute(config.run.directory);
  job.grace_s = s.grace_s;
  job.requeues = s.requeues;
  // The paths are absolute, because the job starts in a folder that depends on the site.
  job.launch = {std::filesystem::read_symlink("/proc/self/exe").string(), "launch",
                absolute(s.run)};
  job.launch.insert(job.launch.end(), s.overrides.begin(), s.overrides.end());
  const std::string restarts = std::to_string(s.restarts);
  for (const char* word :
       {"--launcher", "srun", "--mpi", s.mpi.c_str(), "--restart", restarts.c_str()})
    job.launch.emplace_back(word);
  if (!s.srun.empty()) job.launch.insert(job.launch.end(), {"--launcher-args", s.srun});
  return job;
}

}  // namespace

int verb_submit(Args args) {
  SubmitArguments s;
  if (!read_arguments(args, s)) return 0;
  const config::RunConfig config = open_run(s.run, s.overrides);
  require_ranks(s, config);
  const launch::BatchJob job = job_of(s, config);
  const std::string script = launch::sbatch_script(job);
  if (s.print)
    fmt::print("{}", script);
  else
    submit_job(job.folder, script, s.json);
  return 0;
}

}  // namespace tessera::cli
