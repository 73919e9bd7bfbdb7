// A checkpoint of a tiny model.
#pragma once

#include "checkpoint/async_save.h"
#include "tests/train/tiny_run.h"

namespace tessera::eval {

// The model of a run with fresh weights, saved.
inline Path fresh_model(const Path& folder, const config::RunConfig& c) {
  const auto world = comm::self_world();
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                         INT64_MAX, *world, {});
  trainer.initialize();
  checkpoint::CheckpointHeader h;
  h.step = 1;
  h.config = to_tree(c);
  h.model = to_tree(c.model);
  h.state = Tree::object();
  h.version = "test";
  checkpoint::save(folder, h, trainer.state());
  return folder / "1";
}

}  // namespace tessera::eval
