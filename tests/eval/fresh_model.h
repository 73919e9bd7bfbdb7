// A checkpoint of a tiny model.
#pragma once

#include "checkpoint/saving.h"
#include "tests/train/tiny_run.h"

namespace tessera {

// The model of a run with fresh weights, saved.
inline Path fresh_model(const Path& folder, const RunConfig& c) {
  const auto world = self_world();
  Trainer trainer(c, std::make_unique<PreparedKernels>(read_cpu_features(), 2), INT64_MAX, *world,
                  {});
  trainer.initialise();
  CheckpointHeader h;
  h.step = 1;
  h.config = to_tree(c);
  h.model = to_tree(c.model);
  h.state = Tree::object();
  h.version = "test";
  save(folder, h, trainer.state());
  return folder / "1";
}

}  // namespace tessera
