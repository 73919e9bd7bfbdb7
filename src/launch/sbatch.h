// The script that `sbatch` takes: plain shell that a person can read, change and submit by hand.
// Every word of the job is quoted, for the shell and for the #SBATCH lines. Pure.
#pragma once

#include <string>
#include <vector>

namespace tessera::launch {

struct BatchJob {
  std::string name = "tessera";
  int64_t nodes = 1, tasks_per_node = 1;
  int64_t cpus_per_task = 0;       // 0: SLURM's default
  int64_t gpus_per_node = 0;       // 0: none asked for
  std::string time;                // "4:00:00"; empty: the partition's
  std::string partition, account;  // empty: SLURM's default
  std::vector<std::string> more;   // further options, such as "--mem=0", as in a shell
  std::vector<std::string> setup;  // shell commands to run first, such as "module load openmpi"
  std::string folder;              // of the run: the output of the job and of each rank go there
  int64_t grace_s = 180;           // how long before the time limit the ranks save and exit
  int64_t requeues = 3;  // at most, after failures; an exit at the time limit does not count
  std::vector<std::string> launch;  // program and arguments: tessera launch RUN …, without -n
};

// The job is requeued at the time limit, and after a failure of a node or rank. It ends when the
// run does; a usage error (code 2) ends it at once. Throws Error for control characters in any of
// the job's texts: a line break would begin a command of its own.
std::string sbatch_script(const BatchJob& job);

}  // namespace tessera::launch
