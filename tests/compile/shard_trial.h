// Whole models, divided over a mesh and executed by all its ranks in lockstep, to be compared with
// the same model on one rank.
#pragma once

#include <map>
#include <string>

#include "compile/layout.h"
#include "compile/optimizer.h"
#include "model/model_config.h"
#include "tests/compile/lockstep.h"

namespace tessera::testing {

constexpr int64_t kSequences = 4, kTokens = 8;

struct Trial {
  model::ModelConfig model;
  int64_t tokens = kTokens, source = kTokens;  // of a sequence, and of one of an encoder
  int64_t replica = 1, shard = 1, tensor = 1, context = 1;
  compile::ContextMethod method = compile::ContextMethod::kGather;
  bool balance = false, documents = false;
  bool sequence_parallel = true, selective = false;
  compile::CompilerOptions options;
  DType type = DType::kF32;
  compile::AdapterPolicy adapters = {};
  std::string name = {};
};

model::ModelConfig tiny(model::Family family);
// Returns the trial of a tiny model on one rank.
Trial of(model::Family family);

// Describes the family and the mesh.
std::string text(const Trial& s);

// Returns the graph of the trial, forward and backward, as compile() builds it.
Graph built(const Trial& s);

// The report, then the gradient of each weight by its full name.
using Results = std::map<std::string, Array>;

// Executes the graph on all ranks of the trial, with the same inputs on every mesh.
Results run(const Trial& s, const Graph& g);

// Returns |a - b| / |b|.
double distance(const Array& a, const Array& b);

// Expects the report and the gradients of one rank.
void expect_equal(const Trial& s);

// The same on meshes of 2 to 8 ranks, with and without sequence parallelism.
void on_all_meshes(Trial s);

}  // namespace tessera::testing
