// The script that `sbatch` takes: plain shell that a person can read, change and submit by hand.
// Pure.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct BatchJob {
  std::string name = "tessera";
  int nodes = 1, tasks_per_node = 1;
  int cpus_per_task = 0;            // 0: SLURM's default
  std::string time;                 // "4:00:00"; empty: the partition's
  std::string partition, account;   // empty: SLURM's default
  std::vector<std::string> more;    // further lines, such as "--mem=0"
  std::string folder;               // of the run: the output of the job and of each rank go there
  int leave_s = 180;                // this long before the time limit the ranks are told to save
  int requeues = 3;                 // after losses; being told to leave is no loss
  std::vector<std::string> launch;  // program and arguments: tessera launch RUN …, without -n
};

// The job goes back to the queue when the time is up, when a node fails and when a rank is lost. It
// ends when the run does; a mistake in the command line (code 2) ends it at once.
std::string sbatch_script(const BatchJob& job);

}  // namespace tessera
