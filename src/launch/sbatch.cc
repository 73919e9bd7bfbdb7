#include "launch/sbatch.h"

#include "base/error.h"
#include "launch/command.h"

namespace tessera {
namespace {

std::string line(const std::string& option, const std::string& why = "") {
  if (why.empty()) return fmt::format("#SBATCH {}\n", option);
  return fmt::format("#SBATCH {:36}  # {}\n", option, why);
}

std::string header(const BatchJob& job) {
  std::string s = "#!/bin/bash\n";
  s += line("--job-name=" + job.name);
  s += line(fmt::format("--nodes={}", job.nodes));
  s += line(fmt::format("--ntasks-per-node={}", job.tasks_per_node));
  if (job.cpus_per_task > 0) s += line(fmt::format("--cpus-per-task={}", job.cpus_per_task));
  if (!job.time.empty()) s += line("--time=" + job.time);
  if (!job.partition.empty()) s += line("--partition=" + job.partition);
  if (!job.account.empty()) s += line("--account=" + job.account);
  for (const std::string& m : job.more) s += line(m);
  s += line("--requeue", "when a node fails, back to the queue");
  s += line("--open-mode=append", "and the same files go on");
  s += line(fmt::format("--signal=B:TERM@{}", job.leave_s),
            "so many seconds before the limit: save and leave");
  s += line(fmt::format("--output={}/slurm-%j.txt", job.folder));
  return s;
}

}  // namespace

std::string sbatch_script(const BatchJob& job) {
  return header(job) + fmt::format(R"(
# One launch starts the ranks by srun, watches them and begins again at the last checkpoint when one
# is lost. What each rank prints is in {0}/ranks/rank-N.txt.
leaving=
{1} -n "$SLURM_NTASKS" --rank-files {0}/ranks &
launch=$!
trap 'leaving=1; kill -TERM "$launch" 2>/dev/null' TERM

wait "$launch"; code=$?
while kill -0 "$launch" 2>/dev/null; do wait "$launch"; code=$?; done  # the signal ended a wait

if [ -n "$leaving" ] && [ "$code" = 0 ]; then
  echo "The time is up and the run is saved: back to the queue."
  exec scontrol requeue "$SLURM_JOB_ID"
fi
if [ "$code" = 1 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {2} ]; then
  echo "The run was lost: back to the queue, for the $((${{SLURM_RESTART_COUNT:-0}} + 1)). of {2} times."
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
)",
                                   quote_words({job.folder}), quote_words(job.launch),
                                   job.requeues);
}

}  // namespace tessera
