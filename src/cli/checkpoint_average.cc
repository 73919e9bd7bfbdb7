// tessera checkpoint average
#include <fmt/format.h>

#include "base/real.h"
#include "checkpoint/merge.h"
#include "cli/checkpoint_file.h"
#include "cli/show.h"
#include "cli/verbs.h"

namespace tessera::cli {

int checkpoint_average(Args args) {
  std::vector<std::string> from;
  std::string out;
  bool json = false;
  Arguments arguments(
      "checkpoint average", "Create a checkpoint with the mean weights of others.",
      "tessera checkpoint average --out mean run/checkpoints/900 run/checkpoints/1000");
  arguments.many(from, "CHECKPOINT", "two or more checkpoints of one model", 2);
  arguments.option(out, "--out", "CHECKPOINT", "checkpoint to create", true);
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  std::vector<Path> paths;
  for (const std::string& f : from) paths.push_back(choose_checkpoint(f));
  StatusLine status;
  const checkpoint::Averaged made =
      checkpoint::average_checkpoints(paths, out, version(), show_tensors(status, "averaging"));
  status.erase();
  if (json) {
    Tree t;
    t.set("checkpoint", Tree(out));
    t.set("averaged", Tree(std::ssize(paths)));
    t.set("tensors", Tree(made.tensors));
    t.set("parameters", Tree(made.parameters));
    fmt::print("{}\n", to_json(t));
  } else {
    show("{}: mean of {} checkpoints, {:.1f} M parameters in {} tensors\n", out, paths.size(),
         ratio(made.parameters, 1'000'000), made.tensors);
  }
  return 0;
}

}  // namespace tessera::cli
