// tessera launch RUN -n N [--hosts F] [--restart N] [--on-failure stop|smaller] [key=value …]
//
// A loop of attempts. An attempt starts mpirun or srun, watches the ranks by their heartbeats until
// all have ended, and reports how it ended (launch/supervise.h). After a failure, launch/restart.h
// decides whether and when to start again; the next attempt resumes from the newest whole
// checkpoint, with fewer ranks if hosts failed and --on-failure is `smaller`.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "base/tree.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "launch/command.h"
#include "launch/home.h"
#include "launch/restart.h"
#include "launch/supervise.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
  Arguments a("launch", "Starts the ranks of a run, watches them, starts them again after a loss.",
              "tessera launch run.yaml -n 8 --restart 3 layout.data=8");
  a.required(l.run, "RUN", "the run file");
  a.many(l.overrides, "key=value", "replaces what the run file says");
  a.option(l.ranks, "-n", "RANKS", "how many", true);
  a.option(l.hosts, "--hosts", "FILE", "machines, a line each: n01 slots=4 (mpirun)");
  a.option(l.restarts, "--restart", "N",
           "number of restarts from the last checkpoint after a failure");
  a.option(l.on_failure, "--on-failure", "stop|smaller",
           "smaller: restart without the failed hosts");
  a.option(l.pause_s, "--pause", "SECONDS",
           "delay before the first restart (doubles after each failure)");
  a.option(l.heartbeat_timeout_s, "--heartbeat-timeout", "SECONDS",
           "time without a heartbeat after which a rank counts as failed");
  a.option(l.launcher, "--launcher", "mpirun|srun",
           "program that starts the ranks; auto: srun inside a SLURM job");
  a.option(l.mpi, "--mpi", "pmix|pmi2", "how ranks find each other under srun");
  a.option(l.launcher_args, "--launcher-args", "ARGUMENTS",
           "further arguments of mpirun or srun, in one text");
  a.option(l.address, "--address", "ADDRESSES", "of this host, at which the ranks reach it");
  a.option(l.log_dir, "--log-dir", "FOLDER",
           "directory for the output of each rank, one file per rank");
  a.option(l.program, "--program", "TEXT", "what each rank runs, if not `tessera train`");
  a.json(l.json);
  if (!a.parse(args)) return false;
  constexpr int64_t kMostRanks = 1 << 20;
  if (l.ranks < 1 || l.ranks > kMostRanks)
    throw UsageError("launch: -n {}: expected 1 to {} ranks", l.ranks, kMostRanks);
  if (l.on_failure != "stop" && l.on_failure != "smaller")
    throw UsageError("launch: --on-failure {}: expected stop or smaller", l.on_failure);
  if (l.launcher != "auto" && l.launcher != "mpirun" && l.launcher != "srun")
    throw UsageError("launch: --launcher {}: expected mpirun or srun", l.launcher);
  return true;
}

// Reads the numbers that a smaller job must still divide: the batch and the ranks of one copy of
// the model.
launch::JobSize size_of_job(const LaunchArguments& l) {
  launch::JobSize s;
  s.global = 0;  // unknown for a foreign program: any number of ranks divides 0
  if (!l.program.empty()) return s;
  const config::RunConfig config = open_run(l.run, l.overrides);
  s.global = config.batch.global;
  s.micro = config.batch.micro;
  s.model_ranks = config.layout.tensor * config.layout.pipeline;
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
    size_ = size_of_job(l);
    if (!l.log_dir.empty()) std::filesystem::create_directories(l.log_dir);
  }
  int go();

 private:
  launch::AttemptOptions options() const;
  std::vector<std::string> program() const;
  bool prepare_next();
  bool starts_on_this_host() const;
  bool pause(double seconds) const;
  template <class... A>
  void say(fmt::format_string<A...> format, A&&... a) const {
    print_to(stderr, fmt::format("tessera: {}\n", fmt::format(format, std::forward<A>(a)...)));
  }

  const LaunchArguments& l_;
  const train::StopSignals stop_{train::SecondRequest::kIsCounted};
  bool srun_ = false;
  launch::RankHosts world_;
  launch::JobSize size_;
  launch::RestartOptions restarts_;
  launch::AttemptResult last_;
  std::vector<launch::AttemptEnd> ends_;
};

// Assembles the command of a rank: this program by its absolute path, since ranks may start in
// another directory.
std::vector<std::string> Launch::program() const {
  std::vector<std::string> p = launch::split_words(l_.program);
  if (p.empty()) p = {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
  p.push_back(l_.run);
  p.insert(p.end(), l_.overrides.begin(), l_.overrides.end());
  if (world_.data > 0) p.push_back(fmt::format("layout.data={}", world_.data));
  // A restart continues what the first start began, even if that one began from scratch.
  if ((!ends_.empty() || was_requeued()) && l_.program.empty())
    p.emplace_back("checkpoint.resume=auto");
  return p;
}

// Returns true if mpirun starts all ranks on this host: it has no list of hosts, neither from us
// nor from a batch system or its own configuration. The ranks then report over the loopback
// interface, which no firewall blocks and no other host can reach.
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
  start.starter = srun_ ? launch::Starter::kSrun : launch::Starter::kMpirun;
  start.ranks = world_.ranks;
  start.hosts = world_.hosts;
  start.left_out = world_.left_out;
  start.mpi = l_.mpi;
  start.root = geteuid() == 0;
  start.more = launch::split_words(l_.launcher_args);
  start.program = program();
  launch::AttemptOptions o;
  o.starter = start.starter;
  o.command = launch::start_command(start);
  if (!l_.address.empty()) {
    o.addresses = launch::parse_home("-:1:" + l_.address).addresses;
  } else if (starts_on_this_host()) {
    o.addresses = {"127.0.0.1"};
    o.interfaces = launch::Interfaces::kLoopback;
  } else {
    o.addresses = launch::own_addresses();
  }
  o.watch.ranks = world_.ranks;
  o.watch.silence_s = l_.heartbeat_timeout_s;
  o.now_s = steady_s;
  o.stop_requests = [this] { return stop_.requests(); };
  if (l_.json) o.out = stderr;
  o.rank_files = l_.log_dir;
  return o;
}

// Waits. Returns false if a signal ended the wait, which is checked every 50 ms.
bool Launch::pause(double seconds) const {
  for (const double until = steady_s() + seconds; steady_s() < until && !stop_.requested();)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return !stop_.requested();
}

// Called after a loss. Decides whether there is another attempt and with which ranks, and waits for
// the pause before it. Returns false if there is none.
bool Launch::prepare_next() {
  const launch::Restart next = launch::after_loss(restarts_, ends_);
  if (!next.again) {
    if (!next.why.empty()) say("not started again: {}", next.why);
    return false;
  }
  const launch::Loss loss = last_.verdict->loss;
  const bool host_lost = loss == launch::Loss::kDied || loss == launch::Loss::kSilent ||
                         loss == launch::Loss::kNeverCame;
  if (l_.on_failure == "smaller" && host_lost) {
    const std::optional<launch::RankHosts> world =
        launch::smaller(world_, *last_.verdict, last_.hosts, size_);
    if (!world) {
      say("not started again: no layout is left for fewer ranks (batch.global {}, batch.micro {}, "
          "{} ranks a copy of the model)",
          size_.global, size_.micro, size_.model_ranks);
      return false;
    }
    world_ = *world;
  }
  say("started again in {:.0f} s, with {} rank{}, from the last checkpoint (restart {} of {})",
      next.pause_s, world_.ranks, world_.ranks == 1 ? "" : "s", ends_.size(), restarts_.limit);
  return pause(next.pause_s);
}

// Starts attempts until one ends well, a signal asks for the end, or no restart is left.
int Launch::go() {
  do {
    last_ = launch::attempt(options());
    if (!last_.verdict) break;
    say("{}", last_.report);
    say("all ranks ended {:.1f} s after that was clear", last_.ending_s);
    ends_.push_back({*last_.verdict, last_.report});
  } while (!stop_.requested() && prepare_next());
  if (l_.json) {
    Tree t, losses = Tree::list();
    for (const launch::AttemptEnd& e : ends_) losses.push(Tree(e.report));
    t.set("ok", Tree(!last_.verdict.has_value()));
    t.set("stopped", Tree(last_.stopped));
    t.set("ranks", Tree(int64_t{world_.ranks}));
    t.set("step", Tree(last_.step));
    t.set("losses", losses);
    fmt::print("{}\n", to_json(t));
  }
  return last_.verdict ? last_.verdict->code : 0;
}

}  // namespace

int verb_launch(Args args) {
  LaunchArguments l;
  if (!read_arguments(args, l)) return 0;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that ends, such as `head`, must not end the ranks
  return Launch(l).go();
}

}  // namespace tessera::cli
