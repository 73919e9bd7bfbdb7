// tessera submit RUN --nodes N [--tasks-per-node N] [--time T] [--print] [key=value …]
#include <cstdio>

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

// What sbatch prints, once it has taken the script.
std::string submit(const std::string& script) {
  const std::string command = "sbatch " + script;
  std::string said;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw Error("sbatch cannot be started");
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) said.push_back(static_cast<char>(c));
  if (pclose(pipe) != 0)
    throw Error(
        "sbatch did not take {} (its words stand above). The script is good to be changed "
        "and submitted by hand",
        script);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said;
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
  if (nodes < 1 || tasks < 1) throw UsageError("submit: wanted one node and one task or more");
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
  const Path file = Path(job.folder) / "job.sbatch";
  std::filesystem::create_directories(job.folder);
  write_file(file, script);
  const std::string said = submit(file.string());
  if (json) {
    Tree t;
    t.set("script", Tree(file.string()));
    t.set("sbatch", Tree(said));
    fmt::print("{}\n", to_json(t));
  } else {
    fmt::print("{}\nscript    {}\noutput    {}/slurm-JOB.txt, of each rank: {}/ranks/\n", said,
               file.string(), job.folder, job.folder);
  }
  return 0;
}

}  // namespace tessera
