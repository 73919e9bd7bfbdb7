// Writes the batch script. Texts from the run file and the command line become arguments in a shell
// script, so each is quoted, and control characters, which could begin a new command, are rejected.
//
// The script runs the launcher in the background and waits for it, because bash runs a trap only
// after a foreground command ends. SLURM sends SIGTERM to the script a while before the time limit;
// the trap passes it to the launcher, the ranks save, and the job is requeued.
#include "launch/sbatch.h"

#include "base/error.h"
#include "launch/command.h"

namespace tessera::launch {
namespace {

std::string line(const std::string& option, const std::string& why = "") {
  if (why.empty()) return fmt::format("#SBATCH {}\n", option);
  return fmt::format("#SBATCH {:36}  # {}\n", option, why);
}

void refuse_control_characters(std::string_view what, const std::string& text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw Error(
          "submit: {} contains the control character 0x{:02x}, which a batch script cannot hold. "
          "Remove it.",
          what, static_cast<unsigned char>(c));
}

void check(const BatchJob& job) {
  refuse_control_characters("run.name", job.name);
  refuse_control_characters("--time", job.time);
  refuse_control_characters("--partition", job.partition);
  refuse_control_characters("--account", job.account);
  refuse_control_characters("run.directory", job.folder);
  for (const std::string& m : job.more) refuse_control_characters("--sbatch", m);
  for (const std::string& command : job.setup) refuse_control_characters("--setup", command);
  for (const std::string& word : job.launch)
    refuse_control_characters("the run file or an override", word);
  // sbatch replaces %-patterns in file names, but not if the name has a backslash.
  if (job.folder.find('\\') != job.folder.npos)
    throw Error("submit: run.directory = {} contains a backslash. Choose another path.",
                job.folder);
}

// Escapes the patterns of a file name: sbatch reads "%%" as one percent sign.
std::string without_patterns(const std::string& path) {
  std::string out;
  for (const char c : path) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

// Returns an option with its value as one argument: sbatch parses quotes as a shell does.
std::string option(const char* name, const std::string& value) {
  return line(quote_words({name + value}));
}

std::string header(const BatchJob& job) {
  std::string s = "#!/bin/bash\n";
  s += option("--job-name=", job.name);
  s += line(fmt::format("--nodes={}", job.nodes));
  s += line(fmt::format("--ntasks-per-node={}", job.tasks_per_node));
  if (job.cpus_per_task > 0) s += line(fmt::format("--cpus-per-task={}", job.cpus_per_task));
  if (job.gpus_per_node > 0) s += line(fmt::format("--gpus-per-node={}", job.gpus_per_node));
  if (!job.time.empty()) s += option("--time=", job.time);
  if (!job.partition.empty()) s += option("--partition=", job.partition);
  if (!job.account.empty()) s += option("--account=", job.account);
  for (const std::string& m : job.more) s += line(quote_words(split_words(m)));
  s += line("--requeue", "requeue after a node failure");
  s += line("--open-mode=append", "append to the same output file");
  s += line(fmt::format("--signal=B:TERM@{}", job.grace_s),
            "sent before the time limit: save and exit");
  s += option("--output=", without_patterns(job.folder) + "/slurm-%j.txt");
  return s;
}

}  // namespace

std::string sbatch_script(const BatchJob& job) {
  check(job);
  std::string setup;
  for (const std::string& command : job.setup) setup += command + "\n";
  return header(job) + setup +
         fmt::format(R"(
# The launch command starts the ranks with srun, monitors them, and resumes from the last checkpoint when a
# rank fails. The output of each rank is in {0}/ranks/rank-N.txt.
leaving=
{1} -n "$SLURM_NTASKS" --log-dir {0}/ranks &
launch=$!
trap 'leaving=1; kill -TERM "$launch" 2>/dev/null' TERM

wait "$launch"; code=$?
while kill -0 "$launch" 2>/dev/null; do wait "$launch"; code=$?; done  # the signal interrupted wait

if [ -n "$leaving" ] && [ "$code" = 0 ]; then
  echo "Time limit reached, checkpoint saved: requeued."
  exec scontrol requeue "$SLURM_JOB_ID"
fi
if [ "$code" = 1 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {2} ]; then
  echo "The run failed: requeued, attempt $((${{SLURM_RESTART_COUNT:-0}} + 1)) of {2}."
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
)",
                     quote_words({job.folder}), quote_words(job.launch), job.requeues);
}

}  // namespace tessera::launch
