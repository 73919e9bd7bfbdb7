// tessera launch RUN -n N [--hosts F] [--restart N] [--on-failure stop|smaller] [key=value …]
//
// A loop of attempts. An attempt starts mpirun or srun, monitors the ranks by their heartbeats
// until all have ended, and reports how it ended (launch/supervise.h). After a failure,
// launch/restart.h decides whether and when to restart; the next attempt resumes from the newest
// intact checkpoint, with fewer ranks if hosts have failed and --on-failure is `smaller`.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/tree.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "launch/command.h"
#include "launch/monitor_endpoint.h"
#include "launch/restart.h"
#include "launch/supervise.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

constexpr int64_t kMostHostFileBytes = int64_t{64} << 20;

struct LaunchArguments {
  std::string run, hosts, on_failure = "stop", launcher = "auto", mpi = "pmix", launcher_args,
                          address, log_dir, program;
  std::vector<std::string> overrides;
  int64_t ranks = 0, restarts = 0;
  double pause_s = 5, heartbeat_timeout_s = 4;
  bool json = false;
};

bool read_arguments(Args args, LaunchArguments& l) {
  Arguments a("launch", "Start the ranks of a run, monitor them, and restart them after a failure.",
              "tessera launch run.yaml -n 8 --restart 3 layout.data=8");
  a.required(l.run, "RUN", "the run file");
  a.many(l.overrides, "key=value", "overrides of run-file keys");
  a.option(l.ranks, "-n", "RANKS", "number of ranks", true);
  a.option(l.hosts, "--hosts", "FILE", "file with one host per line: n01 slots=4 (mpirun)");
  a.option(l.restarts, "--restart", "N", "maximum number of restarts from the last checkpoint");
  a.option(l.on_failure, "--on-failure", "stop|smaller",
           "smaller: restart without the failed hosts");
  a.option(l.pause_s, "--pause", "SECONDS",
           "delay before the first restart; doubles after each failure");
  a.option(l.heartbeat_timeout_s, "--heartbeat-timeout", "SECONDS",
           "heartbeat timeout, after which a rank counts as failed");
  a.option(l.launcher, "--launcher", "auto|mpirun|srun", "launcher; auto: srun inside a SLURM job");
  a.option(l.mpi, "--mpi", "pmix|pmi2", "process management interface for srun");
  a.option(l.launcher_args, "--launcher-args", "ARGUMENTS",
           "further arguments for mpirun or srun, in one text");
  a.option(l.address, "--address", "ADDRESSES", "addresses of this host for the ranks");
  a.option(l.log_dir, "--log-dir", "DIR",
           "directory for the output of each rank, one file per rank");
  a.option(l.program, "--program", "COMMAND",
           "command to run on each rank instead of `tessera train`");
  a.json(l.json);
  if (!a.parse(args)) return false;
  constexpr int64_t kMostRanks = 1 << 20;
  if (l.ranks < 1 || l.ranks > kMostRanks)
    throw UsageError("launch: -n {}: expected 1 to {} ranks", l.ranks, kMostRanks);
  if (l.on_failure != "stop" && l.on_failure != "smaller")
    throw UsageError("launch: --on-failure {}: expected stop or smaller", l.on_failure);
  if (l.launcher != "auto" && l.launcher != "mpirun" && l.launcher != "srun")
    throw UsageError("launch: --launcher {}: expected auto, mpirun or srun", l.launcher);
  return true;
}

// Returns the numbers that a job with fewer ranks must still divide: the batch sizes and the ranks
// of one model replica.
launch::JobSize size_of_job(const config::RunConfig& config) {
  launch::JobSize s;
  s.global = config.batch.global;
  s.micro = config.batch.micro;
  s.model_ranks = config.layout.context * config.layout.tensor * config.layout.pipeline;
  s.zero_group = config.layout.zero_group;
  return s;
}

// Returns true if SLURM requeued this job.
bool was_requeued() {
  const char* restarts = std::getenv("SLURM_RESTART_COUNT");
  return restarts != nullptr && std::string_view(restarts) != "0";
}

class Launch {
 public:
  explicit Launch(const LaunchArguments& l) : l_(l) {
    const bool slurm = std::getenv("SLURM_JOB_ID") != nullptr;
    srun_ = l.launcher == "srun" || (l.launcher == "auto" && slurm);
    world_.ranks = static_cast<int>(l.ranks);
    if (!l.hosts.empty())
      world_.hosts = launch::parse_hosts(read_pipe_or_file(l.hosts, kMostHostFileBytes), l.hosts);
    restarts_.limit = static_cast<int>(l.restarts);
    restarts_.pause_s = l.pause_s;
    size_.global = 0;  // unknown for another program: any number of ranks divides 0
    if (l.program.empty()) {
      const config::RunConfig config = open_run(l.run, l.overrides);
      size_ = size_of_job(config);
      directory_ = config.run.directory;
    }
    if (!l.log_dir.empty()) std::filesystem::create_directories(l.log_dir);
  }
  int go();

 private:
  launch::AttemptOptions options() const;
  std::vector<std::string> program() const;
  bool prepare_next();
  bool starts_on_this_host() const;
  bool pause(double seconds) const;
  void report(LogLevel level, const std::string& text) const;
  template <class... A>
  void say(fmt::format_string<A...> format, A&&... a) const {
    print_to(stderr, fmt::format("tessera: {}\n", fmt::format(format, std::forward<A>(a)...)));
  }

  const LaunchArguments& l_;
  const train::StopSignals stop_{train::SecondSignal::kIsCounted};
  bool srun_ = false;
  Path directory_;  // run directory; empty for another program
  launch::RankHosts world_;
  launch::JobSize size_;
  launch::RestartOptions restarts_;
  launch::AttemptResult last_;
  std::vector<launch::AttemptEnd> ends_;
};

// Returns the command of a rank. This program is given by its absolute path, since ranks may start
// in another directory.
std::vector<std::string> Launch::program() const {
  std::vector<std::string> p = launch::split_words(l_.program);
  if (p.empty()) p = {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
  p.push_back(l_.run);
  p.insert(p.end(), l_.overrides.begin(), l_.overrides.end());
  if (world_.data > 0) p.push_back(fmt::format("layout.data={}", world_.data));
  // A restart resumes the run, even if the first attempt started from scratch.
  if ((!ends_.empty() || was_requeued()) && l_.program.empty())
    p.emplace_back("checkpoint.resume=auto");
  return p;
}

// Returns true if mpirun starts all ranks on this host, because neither we, nor a batch system, nor
// its own configuration give it a list of hosts. The ranks then report over the loopback interface,
// which no firewall blocks and no other host can reach.
bool Launch::starts_on_this_host() const {
  if (srun_ || !world_.hosts.empty() || !l_.launcher_args.empty()) return false;
  constexpr std::array kHostLists = {"SLURM_JOB_ID",
                                     "PBS_NODEFILE",
                                     "PE_HOSTFILE",
                                     "LSB_HOSTS",
                                     "LSB_DJOB_HOSTFILE",
                                     "OMPI_MCA_orte_default_hostfile",
                                     "PRTE_MCA_prte_default_hostfile"};
  return std::none_of(kHostLists.begin(), kHostLists.end(),
                      [](const char* name) { return std::getenv(name) != nullptr; });
}

launch::AttemptOptions Launch::options() const {
  launch::StartOptions start;
  start.launcher = srun_ ? launch::Launcher::kSrun : launch::Launcher::kMpirun;
  start.ranks = world_.ranks;
  start.hosts = world_.hosts;
  start.left_out = world_.left_out;
  start.mpi = l_.mpi;
  start.root = geteuid() == 0;
  start.more = launch::split_words(l_.launcher_args);
  start.program = program();
  launch::AttemptOptions o;
  o.launcher = start.launcher;
  o.command = launch::start_command(start);
  if (!l_.address.empty()) {
    o.addresses = launch::parse_endpoint("-:1:" + l_.address).addresses;
  } else if (starts_on_this_host()) {
    o.addresses = {"127.0.0.1"};
    o.interfaces = launch::Interfaces::kLoopback;
  } else {
    o.addresses = launch::own_addresses();
  }
  o.monitor.ranks = world_.ranks;
  o.monitor.silence_s = l_.heartbeat_timeout_s;
  o.now_s = steady_s;
  o.stop_requests = [this] { return stop_.requests(); };
  if (l_.json) o.out = stderr;
  o.rank_files = l_.log_dir;
  if (!directory_.empty()) o.state_file = directory_ / "ranks.json";
  return o;
}

// Waits, checking for signals every 50 ms. Returns false if a signal ended the wait.
bool Launch::pause(double seconds) const {
  for (const double until = steady_s() + seconds; steady_s() < until && !stop_.requested();)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return !stop_.requested();
}

// Called after a failure. Decides whether there is another attempt and with which ranks, and waits
// for the delay before it. Returns false if there is none.
bool Launch::prepare_next() {
  const launch::Restart next = launch::after_failure(restarts_, ends_);
  if (!next.again) {
    if (!next.why.empty()) say("no restart: {}", next.why);
    return false;
  }
  const launch::FailureKind kind = last_.failure->kind;
  const bool host_failed = kind == launch::FailureKind::kDied ||
                           kind == launch::FailureKind::kSilent ||
                           kind == launch::FailureKind::kNeverCame;
  if (l_.on_failure == "smaller" && host_failed) {
    const std::optional<launch::RankHosts> world =
        launch::smaller(world_, *last_.failure, last_.hosts, size_);
    if (!world) {
      say("no restart: no layout is possible with fewer ranks (batch.global {}, batch.micro {}, "
          "{} ranks per model replica)",
          size_.global, size_.micro, size_.model_ranks);
      return false;
    }
    world_ = *world;
  }
  report(LogLevel::kInfo,
         fmt::format("restarting in {:.0f} s with {} rank{} from the last checkpoint (restart {} "
                     "of {})",
                     next.pause_s, world_.ranks, world_.ranks == 1 ? "" : "s", ends_.size(),
                     restarts_.limit));
  return pause(next.pause_s);
}

// Prints the text and appends it to the log of the run, if the run has begun one.
void Launch::report(LogLevel level, const std::string& text) const {
  say("{}", text);
  const Path file = directory_ / "log.txt";
  std::error_code none;
  if (directory_.empty() || !std::filesystem::is_regular_file(file, none)) return;
  try {
    Log log(LogTerminal::kOff);
    log.open(file);
    log.write(level, "launch: " + text);
  } catch (const Error&) {  // the text is on the terminal
  }
}

// Starts attempts until one succeeds, a signal requests the end, or there is no further restart.
// Returns the exit code.
int Launch::go() {
  do {
    last_ = launch::attempt(options());
    if (!last_.failure) break;
    report(LogLevel::kError, last_.report);
    say("all ranks ended {:.1f} s after the failure was detected", last_.ending_s);
    ends_.push_back({*last_.failure, last_.report});
  } while (!stop_.requested() && prepare_next());
  if (l_.json) {
    Tree t, losses = Tree::list();
    for (const launch::AttemptEnd& e : ends_) losses.push(Tree(e.report));
    t.set("ok", Tree(!last_.failure.has_value()));
    t.set("stopped", Tree(last_.stopped));
    t.set("ranks", Tree(int64_t{world_.ranks}));
    t.set("step", Tree(last_.step));
    t.set("losses", losses);
    fmt::print("{}\n", to_json(t));
  }
  return last_.failure ? last_.failure->code : 0;
}

}  // namespace

int verb_launch(Args args) {
  LaunchArguments l;
  if (!read_arguments(args, l)) return 0;
  std::signal(SIGPIPE, SIG_IGN);  // if a reader such as `head` ends, the ranks must continue
  return Launch(l).go();
}

}  // namespace tessera::cli
