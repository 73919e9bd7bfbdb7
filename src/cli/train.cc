// tessera train RUN [key=value …]
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <new>

#include "cli/rank.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
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

void print_outcome(const TrainOutcome& outcome) {
  Tree t;
  t.set("step", Tree(outcome.step));
  t.set("loss", Tree(outcome.loss));
  t.set("interrupted", Tree(outcome.interrupted));
  t.set("checkpoint", Tree(outcome.checkpoint));
  fmt::print("{}\n", to_json(t));
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
  const std::unique_ptr<Heartbeat> heartbeat = start_heartbeat(read_rank_place(), version());
  options.heartbeat = heartbeat.get();
  try {
    const RunConfig config = open_run(run, overrides);
    heartbeat->facts(to_json(to_tree(config)));
    const TrainOutcome outcome = train(config, options);
    heartbeat->leave();
    if (options.json) print_outcome(outcome);
    return 0;
  } catch (const std::bad_alloc&) {
    if (!heartbeat->fail("out of memory: the system gave no more")) throw;
  } catch (const std::exception& e) {
    if (!heartbeat->fail(e.what())) throw;
  }
  return 1;  // `tessera launch` has the error and tells it once, for all ranks
}

}  // namespace tessera
