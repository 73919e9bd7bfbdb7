// tessera train RUN [key=value …]: one rank of a training run.
//
// The order matters on several ranks. The heartbeat starts first, so that `tessera launch` receives
// every later error. Then each rank reads the configuration, MPI is initialized, and the ranks
// compare version and configuration before any of them writes to the run directory. Rank 0 then
// locks the directory for all. An error on one rank ends all of them (give_up), because the others
// would wait in a collective forever.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/checkpoint_file.h"
#include "cli/plan_search.h"
#include "cli/rank.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "comm/agree.h"
#include "comm/world.h"
#include "data/tokenizer.h"
#include "eval/evaluate.h"
#include "eval/evaluation_layout.h"
#include "eval/likelihood.h"
#include "launch/monitor_endpoint.h"
#include "launch/rank_consistency.h"
#include "train/loop.h"
#include "train/run_folder.h"
#include "train/task_metrics.h"

namespace tessera::cli {
namespace {

// The ranks of a run whose layout divides the model evaluate together, as they train.
eval::ModelOptions options_of(const config::RunConfig& c, comm::World& world) {
  const bool bf16 =
      c.precision == compile::Precision::kBf16 || c.precision == compile::Precision::kBf16Sr;
  eval::ModelOptions o = {bf16 ? compile::Precision::kBf16 : compile::Precision::kFp32,
                          static_cast<int>(c.run.threads)};
  if (c.run.device == config::Device::kCuda)
    o.gpu.emplace();  // the GPU that this process trains on
  if (!eval::divides_model(c.layout)) return o;
  o.world = &world;
  o.layout = eval::evaluation_layout(c.layout);
  return o;
}

train::TaskMetrics metrics_of(const eval::Task& task, const eval::TaskResult& r) {
  train::TaskMetrics out{task.name, std::ssize(r.examples), {}};
  for (const eval::Metric& m : r.metrics) out.figures.push_back({m.name, m.value, m.error});
  return out;
}

// Reads all tasks and examples of evaluation.tasks. Throws Error as read_tasks does.
train::TaskEvaluation task_evaluation(const config::RunConfig& config, comm::World& of_run) {
  const config::EvaluationSection& e = config.evaluation;
  train::TaskEvaluation out;
  if (e.tasks.empty()) return out;
  for (const std::string& file : e.tasks) require_task("evaluation.tasks", file);
  std::vector<eval::Task> tasks = eval::read_tasks({e.tasks, e.data, -1, e.limit});
  bool writes = false;
  for (const eval::Task& t : tasks) {
    out.names.push_back(t.name);
    writes = writes || t.spec.kind == eval::TaskKind::kExactMatch;
  }
  out.bytes = [&of_run, writes](const config::RunConfig& c) {
    const eval::ModelOptions where = options_of(c, of_run);
    const int64_t answers = writes ? eval::answer_bytes(c.model, where) : 0;
    return std::max(answers, eval::likelihood_bytes(c.model, where));
  };
  out.run = [tasks = std::move(tasks)](const Path& checkpoint, const config::RunConfig& c,
                                       comm::World& world) {
    std::optional<checkpoint::CheckpointReader> reader;
    std::unique_ptr<data::Tokenizer> tokenizer;
    comm::on_all(world, [&] {
      reader.emplace(checkpoint);
      tokenizer = tokenizer_of(*reader);
    });
    std::vector<train::TaskMetrics> results;
    for (const eval::Task& t : tasks) {
      // The adapters of a run are in its checkpoint.
      const std::vector<eval::TaskResult> r =
          eval::evaluate(*reader, {nullptr}, *tokenizer, t, world, options_of(c, world));
      results.push_back(metrics_of(t, r[0]));
    }
    return results;
  };
  return out;
}

// Returns the output for progress lines. mpirun and srun give each rank a terminal even if their
// own output goes to a file or a pipe, so under them complete lines are printed instead of one line
// that is rewritten.
train::Progress::Output output_of(std::FILE* file, const RankInfo& place) {
  const bool behind = place.ranks > 1 || std::getenv(launch::kEndpointVariable) != nullptr;
  train::Progress::Output out{file, !behind && isatty(fileno(file)) != 0, 0};
  winsize size{};
  if (out.terminal && ioctl(fileno(file), TIOCGWINSZ, &size) == 0) out.columns = size.ws_col;
  return out;
}

void print_outcome(const train::TrainOutcome& outcome) {
  Tree t;
  t.set("step", Tree(outcome.step));
  t.set("loss", Tree(outcome.loss));
  t.set("interrupted", Tree(outcome.interrupted));
  t.set("stopped_early", Tree(outcome.stopped_early));
  t.set("checkpoint", Tree(outcome.checkpoint));
  t.set("data", outcome.data);
  fmt::print("{}\n", to_json(t));
}

// Ends the process with SIGQUIT if that signal stopped the run: its sender expects a core dump.
void end_as_asked(const train::TrainOutcome& outcome) {
  if (!outcome.interrupted || outcome.signal != SIGQUIT) return;
  std::fflush(stdout);
  std::raise(SIGQUIT);
}

std::unique_ptr<comm::World> world_of(const config::RunConfig& config, int64_t started) {
  const compile::Layout& l = config.layout;
  const int64_t expected = compile::mesh_of(l).ranks(), each = l.context * l.tensor * l.pipeline;
  if (started != expected)
    throw Error(
        "the layout has {} (data {} x context {} x tensor {} x pipeline {}), but {} {} started. "
        "Start it with   tessera launch … -n {}   or set {}.",
        counted(expected, "rank"), l.data, l.context, l.tensor, l.pipeline, started,
        started == 1 ? "was" : "were", expected,
        started % each == 0 ? fmt::format("layout.data to {}", started / each)
                            : "smaller values of these keys of layout");
  return started == 1 ? comm::self_world() : comm::mpi_world();
}

// Throws Error unless all ranks run the same version with the same configuration. Collective.
void require_agreement(comm::World& world, const RankInfo& place, const std::string& config) {
  world.barrier();  // so that the ranks read their clocks at about the same time
  const launch::RankFacts own{place.rank, place.host, version(), config, wall_s()};
  std::vector<launch::RankFacts> all;
  for (const std::string& text : world.all_gather(launch::to_text(own)))
    all.push_back(launch::parse_facts(text));
  const launch::RankConsistency agreement = launch::compare(all);
  const bool watched =
      std::getenv(launch::kEndpointVariable) != nullptr;  // then the monitor reports it
  if (world.rank() == 0 && !watched)
    for (const std::string& w : agreement.warnings)
      print_to(stderr, fmt::format("warning: {}\n", printable(w)));
  if (!agreement.error.empty()) throw Error("{}", agreement.error);
}

// The time that a failed rank waits before it aborts all ranks. Meanwhile the monitor receives the
// reports of the other ranks, and normally ends them.
constexpr std::chrono::seconds kUntilEnded(3);

constexpr const char* kNoMemory = "out of memory: the system cannot provide more";

// Reports the error to the monitor, or on standard error if there is none, and ends all ranks.
// Returns false if there is only one rank and no monitor: then main() prints the error.
bool give_up(const std::string& error, int code, launch::Heartbeat& heartbeat, comm::World* world) {
  const bool told = heartbeat.fail(error, code);
  const bool alone = world == nullptr || world->size() == 1;
  if (alone) return told;
  if (told)
    std::this_thread::sleep_for(kUntilEnded);
  else
    print_to(stderr, fmt::format("tessera: rank {} on {}: {}\n", world->rank(),
                                 world->host(world->rank()), printable(error)));
  world->abort(code);
  return told;
}

// Locks the run directory on rank 0 for all ranks. The barrier prevents the other ranks from using
// the directory before that.
std::unique_ptr<OwnerLock> lock_for(const train::RunFolder& folder, const config::RunConfig& config,
                                    comm::World& world) {
  std::unique_ptr<OwnerLock> lock;
  try {
    if (world.rank() == 0)
      lock = train::lock_run_directory(config.run.directory, [](const std::string& line) {
        print_to(stderr, fmt::format("tessera: {}\n", printable(line)));
      });
  } catch (const std::exception&) {
    folder.not_locked();
    throw;
  }
  world.barrier();
  return lock;
}

train::TrainOutcome train_in(const train::RunFolder& folder, const config::RunConfig& config,
                             train::TrainOptions options) {
  const bool writes_log = options.world->rank() == 0;
  const std::unique_ptr<OwnerLock> lock = lock_for(folder, config, *options.world);
  options.owner = train::RunOwner(lock.get(), config.run.directory);
  const auto failed = [&](std::string_view error) {
    if (lock == nullptr || lock->lost().empty()) folder.failed(error, writes_log);
  };
  try {
    return train::train(config, options);
  } catch (const std::bad_alloc&) {
    failed(kNoMemory);
    throw;
  } catch (const std::exception& e) {
    failed(e.what());
    throw;
  }
}

}  // namespace

int verb_train(Args args) {
  train::TrainOptions options;
  options.started_s = steady_s();
  std::string run;
  std::vector<std::string> overrides;
  bool small = false;
  Arguments arguments("train", "Train the model described by a run file. Run it again to resume.",
                      "tessera train run.yaml batch.micro=8");
  arguments.required(run, "RUN", "the run file");
  arguments.many(overrides, "key=value", "overrides of run-file keys");
  arguments.flag(small, "--small", "train a scaled-down version of the run on this machine");
  arguments.option(options.from_step, "--from-step", "N",
                   "resume from the checkpoint of step N; later checkpoints are set aside");
  arguments.json(options.json);
  if (!arguments.parse(args)) return 0;
  if (arguments.given("--from-step") && options.from_step < 0)
    throw UsageError("--from-step is {}, expected 0 or more", options.from_step);
  std::signal(SIGPIPE, SIG_IGN);  // if a reader such as `head` ends, the run must continue
  options.version = version_and_commit();
  options.now_s = steady_s;
  options.wall_s = wall_s;
  const RankInfo place = read_rank_info();
  options.terminal = output_of(options.json ? stderr : stdout, place);
  const std::unique_ptr<launch::Heartbeat> heartbeat = start_heartbeat(place, version());
  options.heartbeat = heartbeat.get();
  std::unique_ptr<comm::World> world;
  try {
    const config::RunConfig config =
        with_found_layout(run, overrides, open_run(run, overrides, small), place.ranks, small);
    if (place.rank == 0 && config.layout_search.search)
      print_to(options.terminal.file, fmt::format("layout    found for {} rank{}: {}\n",
                                                  place.ranks, place.ranks == 1 ? "" : "s",
                                                  keys_of({config.layout, config.batch.micro})));
    if (!config.data.tokenizer.empty()) require_file("data.tokenizer", config.data.tokenizer);
    const train::RunFolder folder(config.run.directory);
    const std::string shown = to_json(to_tree(config));
    heartbeat->facts(shown);
    world = world_of(config, place.ranks);
    require_agreement(*world, place, shown);
    options.world = world.get();
    options.tasks = task_evaluation(config, *world);
    const train::TrainOutcome outcome = train_in(folder, config, options);
    heartbeat->leave();
    if (options.json && world->rank() == 0) print_outcome(outcome);
    end_as_asked(outcome);
    return 0;
  } catch (const std::bad_alloc&) {
    if (!give_up(kNoMemory, 1, *heartbeat, world.get())) throw;
  } catch (const NumericError& e) {
    if (!give_up(e.what(), kNumericExitCode, *heartbeat, world.get())) throw;
    return kNumericExitCode;
  } catch (const comm::SharedError& e) {
    // All ranks throw this error; rank 0 reports it and ends the others.
    if (world->rank() != 0) std::this_thread::sleep_for(kUntilEnded);
    if (!give_up(e.what(), 1, *heartbeat, world.get())) throw;
  } catch (const std::exception& e) {
    if (!give_up(e.what(), 1, *heartbeat, world.get())) throw;
  }
  return 1;
}

}  // namespace tessera::cli
