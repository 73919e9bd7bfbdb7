// Writes the script for `sbatch`: plain shell that users can read, change and submit themselves.
// All texts of the job are quoted, for the shell and for the #SBATCH lines. Pure.
#pragma once

#include <string>
#include <vector>

namespace tessera::launch {

struct BatchJob {
  std::string name = "tessera";
  int64_t nodes = 1, tasks_per_node = 1;
  int64_t cpus_per_task = 0;       // 0: SLURM's default
  int64_t gpus_per_node = 0;       // 0: the job requests none
  std::string time;                // time limit, as "4:00:00"; empty: the partition's
  std::string partition, account;  // empty: SLURM's default
  std::vector<std::string> more;   // further options, such as "--mem=0", split as in a shell
  std::vector<std::string> setup;  // shell commands to run first, such as "module load openmpi"
  std::string folder;              // the run directory, also for the output of the job and of ranks
  int64_t grace_s = 180;           // how long before the time limit the ranks save and exit
  int64_t requeues = 3;  // maximum number after failures; exits at the time limit do not count
  std::vector<std::string> launch;  // program and arguments: tessera launch RUN …, without -n
};

// Returns the script. The job is requeued at the time limit and after a failure of a node or rank.
// It ends when the run does; a usage error (code 2) ends it at once. Throws Error for control
// characters in any text of the job (a line break would begin another command) and for a backslash
// in the run directory.
std::string sbatch_script(const BatchJob& job);

}  // namespace tessera::launch
