// tessera train RUN [key=value …]
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cli/run_file.h"
#include "cli/verbs.h"
#include "comm/world.h"
#include "compile/compile.h"
#include "train/loop.h"

namespace tessera {
namespace {

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Progress::Output terminal_of(std::FILE* file) {
  Progress::Output out{file, isatty(fileno(file)) != 0, 0};
  winsize size{};
  if (out.terminal && ioctl(fileno(file), TIOCGWINSZ, &size) == 0) out.columns = size.ws_col;
  return out;
}

// mpirun and srun say to each process how many there are.
int64_t ranks_started() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* n = std::getenv(name)) return std::max<int64_t>(std::atoll(n), 1);
  return 1;
}

std::unique_ptr<World> world_of(const RunConfig& config) {
  const Layout& l = config.layout;
  const int64_t started = ranks_started(), wanted = mesh_of(l).ranks();
  if (started != wanted)
    throw Error(
        "the layout has {} ranks (data {} x tensor {} x pipeline {}), but {} {} started. Start it "
        "with   mpirun -n {} tessera train …   or set layout.data to {}.",
        wanted, l.data, l.tensor, l.pipeline, started, started == 1 ? "was" : "were", wanted,
        std::max<int64_t>(1, started / std::max<int64_t>(1, l.tensor * l.pipeline)));
  return started == 1 ? self_world() : mpi_world();
}

}  // namespace

int verb_train(Args args) {
  TrainOptions options;
  options.started_s = steady_s();
  std::string run;
  std::vector<std::string> overrides;
  Arguments arguments("train", "Trains the model of a run file; started again, it goes on.",
                      "tessera train run.yaml batch.micro=8");
  arguments.required(run, "RUN", "the run file");
  arguments.many(overrides, "key=value", "replaces what the run file says");
  arguments.json(options.json);
  if (!arguments.parse(args)) return 0;
  options.version = version();
  options.now_s = steady_s;
  options.wall_s = wall_s;
  options.terminal = terminal_of(options.json ? stderr : stdout);
  const RunConfig config = open_run(run, overrides);
  const std::unique_ptr<World> world = world_of(config);
  options.world = world.get();
  TrainOutcome outcome;
  try {
    outcome = train(config, options);
  } catch (const Error& e) {
    if (world->size() == 1) throw;
    fmt::print(stderr, "tessera: rank {} on {}: {}\n", world->rank(), world->host(world->rank()),
               e.what());
    world->abort(1);
  }
  if (options.json && world->rank() == 0) {
    Tree t;
    t.set("step", Tree(outcome.step));
    t.set("loss", Tree(outcome.loss));
    t.set("interrupted", Tree(outcome.interrupted));
    t.set("checkpoint", Tree(outcome.checkpoint));
    fmt::print("{}\n", to_json(t));
  }
  return 0;
}

}  // namespace tessera
