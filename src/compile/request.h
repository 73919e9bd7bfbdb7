// The input of compile(): the model, its layout over ranks, and the kind of program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_array.h"
#include "compile/layout.h"
#include "compile/optimizer.h"
#include "ir/ops/preference.h"
#include "model/model_config.h"

namespace tessera::compile {

enum class ProgramKind : uint8_t {
  kTrain,     // micro-batches, backward, update
  kValidate,  // one micro-batch, loss only, over the state of kTrain
  kLogits,    // one micro-batch, all logits in the value `logits`
  kDecode,    // like kLogits for tokens that follow those in the cache; with an encoder, which runs
              // too and leaves what layers attend to in a cache of its own
};
constexpr size_t count_of(ProgramKind) { return static_cast<size_t>(ProgramKind::kDecode) + 1; }

struct CompileRequest {
  model::ModelConfig model;
  Layout layout;
  CompilerOptions options;
  Precision precision = Precision::kFp32;
  LossPolicy loss;
  std::optional<PreferenceTerms> preference;  // a loss over pairs of answers instead of tokens
  OptimizerPolicy optimizer;                  // for weights that no group matches
  std::vector<OptimizerGroup> groups;         // the first group that matches a weight is used
  double average_decay = 0;  // decay of the exponential mean of trained weights; 0: none
  double clip_norm = 1;      // largest norm of the gradients of all weights together
  AdapterPolicy adapters;
  std::vector<std::string> frozen;  // patterns of names of weights that are not trained
  ProgramKind kind = ProgramKind::kTrain;
  int64_t sequences = 1;       // per micro-batch, on this rank
  int64_t tokens = 1;          // per sequence
  int64_t encoder_tokens = 0;  // per encoder input
  bool intra_document_masking = false;
  bool reuse_encoder_output = false;  // kDecode only: it is already cached
  bool keep_answer_sums = false;      // kValidate with `preference`: the value `logits` has the
                                      // log-probabilities of the answers, for the host
  int64_t cache_tokens = 0;           // kDecode only: positions of the cache; 0: the context
  int64_t microbatches = 1;           // per step
  // Smaller steps of the same run, which compile() does not read (compile/compile.h): the
  // micro-batches of those with the batches of batch.warmup_sizes, and whether there is one of a
  // single micro-batch for the gradient-noise scale.
  std::vector<int64_t> warmup_microbatches;
  bool measures_noise = false;
  int64_t stage = 0;  // pipeline stage of the program
  // Whether the optimizer's state is in the arena although this program does not touch it, so that
  // programs of one run agree on the offsets of all state.
  bool optimizer_state = false;

  // The optimizer of the weights with that Value::policy.
  OptimizerPolicy policy(int64_t number) const {
    if (!is_adamw_of(number)) return number == 0 ? optimizer : groups.at(number - 1).policy;
    const int64_t group = adamw_of(number);
    OptimizerPolicy rest = policy(group);
    if (group > 0) rest = groups.at(group - 1).rest.value_or(rest);
    rest.kind = OptimizerKind::kAdamW;
    return rest;
  }
};

}  // namespace tessera::compile
