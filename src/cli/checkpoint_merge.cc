// tessera checkpoint merge
#include <fmt/format.h>

#include "base/real.h"
#include "checkpoint/merge.h"
#include "cli/checkpoint_file.h"
#include "cli/show.h"
#include "cli/verbs.h"

namespace tessera::cli {

int checkpoint_merge(Args args) {
  std::string from, out;
  bool json = false;
  Arguments arguments("checkpoint merge", "Add adapters to the weights of their base model.",
                      "tessera checkpoint merge runs/tuned --out tuned.checkpoint");
  arguments.required(from, "CHECKPOINT", "a checkpoint of a run with lora.rank");
  arguments.option(out, "--out", "CHECKPOINT", "checkpoint to create", true);
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  StatusLine status;
  const checkpoint::Merged made = checkpoint::merge_adapters(
      choose_checkpoint(from), out, version(), show_tensors(status, "merging"));
  status.erase();
  if (json) {
    Tree t;
    t.set("checkpoint", Tree(out));
    t.set("adapters", Tree(made.adapters));
    t.set("tensors", Tree(made.tensors));
    t.set("parameters", Tree(made.parameters));
    fmt::print("{}\n", to_json(t));
  } else {
    show("{}: {} adapters added, {:.1f} M parameters in {} tensors\n", out, made.adapters,
         ratio(made.parameters, 1'000'000), made.tensors);
  }
  return 0;
}

}  // namespace tessera::cli
