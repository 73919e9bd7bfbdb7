#include "train/loop.h"

#include "train/step_loop.h"

namespace tessera {

TrainOutcome train(RunConfig config, const TrainOptions& options) {
  const StopSignals signals;  // from now on, a signal asks the run to save and stop
  const std::unique_ptr<World> alone = options.world ? nullptr : self_world();
  World& world = options.world ? *options.world : *alone;
  RunReporter reporter(options, world);
  RunParts parts(std::move(config));
  RunStart start(parts, options, world, reporter);
  start.prepare();
  start.start();
  return StepLoop(parts, options, world, signals, reporter).go();
}

}  // namespace tessera
