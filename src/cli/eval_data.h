// `tessera eval` on data: datasets, text files, and instructions.
#pragma once

#include <string>
#include <vector>

#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "cli/adapter_option.h"
#include "eval/language_model.h"

namespace tessera::cli {

struct EvalDataOptions {
  std::vector<std::string> sets;          // prefixes of datasets
  std::vector<std::string> texts;         // files or folders of text, JSON lines or Parquet
  std::vector<std::string> instructions;  // files of instructions or conversations
  std::string key = "text";               // key of the text in JSON lines and Parquet
  std::string form;                       // template of instructions; empty: the checkpoint's
  std::string long_examples = "error";    // instructions longer than a row
  int64_t length = 0;                     // tokens per sample; 0: as in training
  int64_t samples = 0;                    // samples per dataset; 0: all
  bool foreign = false;                   // accept datasets of another tokenizer

  bool empty() const { return sets.empty() && texts.empty() && instructions.empty(); }
};

// Throws Error for an input that does not exist or is of another kind.
void require_eval_data(const EvalDataOptions& o);

// Adds the loss on each input with each of the adapters to `results`, and prints it as a line
// unless `quiet`. The weights of the base model are read once per input, and again where adapters
// need another program. Collective if `model` has a world. Throws NumericError for a loss that is
// not finite.
void score_data(const EvalDataOptions& o, checkpoint::CheckpointReader& reader,
                const std::vector<NamedAdapters>& adapters, const eval::ModelOptions& model,
                bool quiet, Tree& results);

}  // namespace tessera::cli
