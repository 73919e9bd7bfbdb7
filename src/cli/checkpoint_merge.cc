// tessera checkpoint merge
#include <fmt/format.h>

#include "base/real.h"
#include "checkpoint/merge.h"
#include "cli/checkpoint_file.h"
#include "cli/show.h"
#include "cli/verbs.h"

namespace tessera::cli {

int checkpoint_merge(Args args) {
  std::string from, out, weights = "trained";
  bool json = false;
  Arguments arguments("checkpoint merge", "Add adapters to the weights of their base model.",
                      "tessera checkpoint merge runs/tuned --out tuned.checkpoint");
  arguments.required(from, "CHECKPOINT", "a checkpoint of a run with lora.rank");
  arguments.option(out, "--out", "CHECKPOINT", "checkpoint to create", true);
  add_weights(arguments, weights);
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  StatusLine status;
  const checkpoint::Merged made = checkpoint::merge_adapters(
      open_checkpoint(from, weights), out, version(), show_tensors(status, "merging"));
  status.erase();
  if (json) {
    Tree t;
    t.set("checkpoint", Tree(out));
    t.set("adapters", Tree(made.adapters));
    t.set("tensors", Tree(made.tensors));
    t.set("parameters", Tree(made.parameters));
    t.set("base_dtype", Tree(made.base_dtype));
    fmt::print("{}\n", to_json(t));
  } else {
    show("{}: {} adapters added, {:.1f} M parameters in {} tensors\n", out, made.adapters,
         ratio(made.parameters, 1'000'000), made.tensors);
    if (made.base_dtype != "f32")
      show(
          "  The run held the base weights in {0}, so the merged weights contain that rounding, "
          "although they are stored in f32. Train with precision=fp32 to avoid it.\n",
          made.base_dtype);
  }
  return 0;
}

}  // namespace tessera::cli
