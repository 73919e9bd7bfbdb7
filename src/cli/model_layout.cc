#include "cli/model_layout.h"

#include <optional>

#include "base/error.h"
#include "eval/evaluation_layout.h"

namespace tessera::cli {
namespace {

// Returns how `world` holds the model: nothing if every rank has a copy of it. `asked`: auto, run,
// copies, or degrees of parallelism.
std::optional<compile::Layout> layout_named(const std::string& asked,
                                            const checkpoint::CheckpointReader& reader,
                                            int64_t ranks) {
  if (asked == "copies") return std::nullopt;
  const compile::Layout run = eval::evaluation_layout(eval::run_layout(reader));
  if (asked == "auto") {
    const bool fits = eval::ranks_of(run) == ranks && eval::divides_model(run);
    return fits ? std::optional(run) : std::nullopt;
  }
  compile::Layout layout = run;
  try {
    if (asked != "run") layout = eval::evaluation_layout(eval::parse_layout(asked));
  } catch (const Error& e) {
    throw UsageError("--layout {}. Or give auto, run or copies.", e.what());
  }
  if (eval::ranks_of(layout) != ranks)
    throw Error(
        "--layout {}: {} has {} ranks, but the number started is {}. Use mpirun -n {}, or "
        "use --layout copies, with which every rank holds the model.",
        asked, eval::to_string(layout), eval::ranks_of(layout), ranks, eval::ranks_of(layout));
  return layout;
}

}  // namespace

void add_layout(Arguments& arguments, std::string& layout) {
  arguments.option(
      layout, "--layout", "L",
      "how ranks hold the model: auto (the run's layout if it divides the model and has this "
      "number of ranks), run, copies, or degrees such as tensor=2,pipeline=2");
}

void divide_model(const std::string& asked, const checkpoint::CheckpointReader& reader,
                  comm::World& world, eval::ModelOptions& options) {
  const auto layout = layout_named(asked, reader, world.size());
  if (!layout || world.size() == 1) return;
  options.world = &world;
  options.layout = *layout;
}

}  // namespace tessera::cli
