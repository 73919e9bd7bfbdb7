// tessera submit RUN --nodes N [--tasks-per-node N] [--time T] [--print] [key=value …]
#include "base/tree.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "launch/child.h"
#include "launch/sbatch.h"

namespace tessera {
namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

void require_range(const char* option, int64_t value, int64_t least) {
  constexpr int64_t kMost = 1'000'000;
  if (value < least || value > kMost)
    throw UsageError("submit: {} is {}, expected {} to {}", option, value, least, kMost);
}

// Returns what sbatch printed. Throws Error with its message if it rejects the script.
std::string submit(const std::string& script) {
  CommandOutput sbatch = run_command({"sbatch", script});
  if (sbatch.code != 0)
    throw Error(
        "sbatch rejected {} (exit code {}):\n{}You can edit the script and submit it yourself.",
        script, sbatch.code, sbatch.err);
  fmt::print(stderr, "{}", sbatch.err);
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
  fmt::print("{}\nscript    {}\noutput    {}/slurm-JOB.txt, of each rank: {}/ranks/\n", said,
             file.string(), folder.string(), folder.string());
}

}  // namespace

int verb_submit(Args args) {
  std::string run, mpi = "pmix";
  std::vector<std::string> overrides;
  BatchJob job;
  int64_t nodes = 1, tasks = 1, cpus = 0, leave_s = 180, requeues = 3, restarts = 3;
  bool print = false, json = false;
  Arguments a("submit", "Writes the script of a SLURM job for a run, and submits it.",
              "tessera submit run.yaml --nodes 2 --tasks-per-node 4 --time 4:00:00 layout.data=8");
  a.required(run, "RUN", "the run file");
  a.many(overrides, "key=value", "replaces what the run file says");
  a.option(nodes, "--nodes", "N", "how many", true);
  a.option(tasks, "--tasks-per-node", "N", "ranks on each");
  a.option(cpus, "--cpus-per-task", "N", "cores a rank; 0: SLURM's default");
  a.option(job.time, "--time", "TIME", "limit, as 4:00:00; without one, the partition's");
  a.option(job.partition, "--partition", "NAME", "where; without one, SLURM's default");
  a.option(job.account, "--account", "NAME", "who pays");
  a.option(job.more, "--sbatch", "OPTION", "one more for sbatch, such as --mem=0; repeatable");
  a.option(leave_s, "--leave", "SECONDS", "before the limit, when the run saves and leaves");
  a.option(requeues, "--requeue", "N", "times the job goes back to the queue after a loss");
  a.option(restarts, "--restart", "N", "times the run goes on within one job after a loss");
  a.option(mpi, "--mpi", "pmix|pmi2", "how the ranks find each other");
  a.flag(print, "--print", "show the script, submit nothing");
  a.json(json);
  if (!a.parse(args)) return 0;
  require_range("--nodes", nodes, 1);
  require_range("--tasks-per-node", tasks, 1);
  require_range("--cpus-per-task", cpus, 0);
  require_range("--leave", leave_s, 0);
  require_range("--requeue", requeues, 0);
  require_range("--restart", restarts, 0);
  const RunConfig config = open_run(run, overrides);
  job.name = config.run.name;
  job.nodes = static_cast<int>(nodes);
  job.tasks_per_node = static_cast<int>(tasks);
  job.cpus_per_task = static_cast<int>(cpus);
  job.folder = absolute(config.run.directory);
  job.leave_s = static_cast<int>(leave_s);
  job.requeues = static_cast<int>(requeues);
  job.launch = {std::filesystem::read_symlink("/proc/self/exe").string(), "launch", absolute(run)};
  job.launch.insert(job.launch.end(), overrides.begin(), overrides.end());
  for (const std::string& more :
       {std::string("--starter"), std::string("srun"), std::string("--mpi"), mpi,
        std::string("--restart"), std::to_string(restarts)})
    job.launch.push_back(more);
  const std::string script = sbatch_script(job);
  if (print) {
    fmt::print("{}", script);
    return 0;
  }
  submit_job(job.folder, script, json);
  return 0;
}

}  // namespace tessera
