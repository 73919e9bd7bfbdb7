// compile(Graph, Layout, Target) → Program: what one rank runs for one purpose.
#pragma once

#include "compile/layout.h"
#include "compile/optimizer.h"
#include "compile/pipeline.h"
#include "compile/target.h"
#include "ir/program.h"
#include "model/model_config.h"

namespace tessera {

enum class Purpose : uint8_t {
  kTrain,     // micro-batches, backward, update
  kValidate,  // one micro-batch, loss only, over the state of kTrain
  kLogits,    // one micro-batch, all logits in the value `logits`
  kDecode,    // like kLogits for tokens that follow those in the cache; with an encoder, which runs
              // too and leaves what layers attend to in a cache of its own
};

struct CompileRequest {
  ModelConfig model;
  Layout layout;
  CompilerOptions options;
  Precision precision = Precision::kFp32;
  OptimizerPolicy optimizer;
  AdapterPolicy adapters;
  std::vector<std::string> frozen;  // patterns of names of weights that are not trained
  Purpose purpose = Purpose::kTrain;
  int64_t sequences = 1;  // of a micro-batch, on this rank
  int64_t tokens = 1;     // of a sequence
  int64_t source = 0;     // of an encoder's
  bool documents_apart = false;
  bool encoded = false;      // of kDecode: the encoder has run before, and does not again
  int64_t microbatches = 1;  // of a step
  int64_t stage = 0;         // of the pipeline: whose program
  // Whether the optimizer's state is in the arena although this program does not touch it, so that
  // programs of one run agree on the offsets of all state.
  bool optimizer_state = false;
};

// data = replica × shard: what ZeRO divides is divided over `shard` and copied over `replica`.
// Where key/value heads have copies, layout.tensor = tensor_kv × tensor: over tensor_kv they are
// divided, over tensor each has its copies.
Mesh mesh_of(const Layout& layout, int64_t head_copies = 1);
// How many ranks hold the same key/value heads: more than one where `tensor` does not divide them.
int64_t head_copies(const ModelConfig& model, const Layout& layout);

// Throws Error for a layout or policy that cannot be compiled, with what is possible.
Program compile(const CompileRequest& request, const Target& target);
// One a stage, whatever request.stage says: the ranks of a stage all run its program. The passes
// over blocks run once.
std::vector<Program> compile_stages(const CompileRequest& request, const Target& target);

// Throws Error where adapters or frozen weights name none of the model's, or adapters are wider
// than a weight; compile() throws the same.
void check_weight_names(const CompileRequest& request);

// What the stages of the pipeline do: the schedule that compile() follows.
PipelineShape pipeline_of(const CompileRequest& request);

// FLOPs of the model for one step's micro-batch, forward and backward, without recomputation.
double model_flops(const CompileRequest& request);

}  // namespace tessera
