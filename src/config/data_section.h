// The section `data` of the run file: what the model learns from.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/key_errors.h"
#include "data/instructions.h"

namespace tessera::config {

enum class Objective : uint8_t { kNextToken, kSpanCorruption };
constexpr const char* enum_names(Objective) { return "next_token|span_corruption"; }

// One dataset of the training blend; a run file may give the prefix only.
struct DataSource {
  std::string prefix;  // PREFIX.bin and PREFIX.idx
  double weight = 1;   // share of the samples, relative to the other weights
  bool operator==(const DataSource&) const = default;
};

// Another blend, from that token of the run on.
struct BlendStageConfig {
  int64_t from_tokens = 0;
  std::vector<DataSource> train;
  bool operator==(const BlendStageConfig&) const = default;
};

// One validation dataset. Its default name is the name of its file.
struct ValidationSource {
  std::string name, prefix;
  bool operator==(const ValidationSource&) const = default;
};

void read_value(const Tree& tree, std::vector<DataSource>& value, const SourceLocation& place);
void read_value(const Tree& tree, std::vector<BlendStageConfig>& value,
                const SourceLocation& place);
void read_value(const Tree& tree, std::vector<ValidationSource>& value,
                const SourceLocation& place);
Tree write_value(const std::vector<DataSource>& x);
Tree write_value(const std::vector<BlendStageConfig>& x);
Tree write_value(const std::vector<ValidationSource>& x);
inline std::string type_name(const std::vector<DataSource>&) {
  return "list of PREFIX or {prefix, weight}";
}
inline std::string type_name(const std::vector<BlendStageConfig>&) {
  return "list of {from_tokens, train}";
}
inline std::string type_name(const std::vector<ValidationSource>&) {
  return "list of PREFIX or {name, prefix}";
}

struct RunConfig;  // config/run_config.h

// Whether a command reads the data of the run, so that the run file must name it.
enum class DataUse : uint8_t { kRead, kIgnored };

struct DataSection {
  std::string tokenizer;
  std::vector<DataSource> train;
  std::vector<BlendStageConfig> stages;
  double size_exponent = 0;
  std::vector<std::string> instructions;
  std::string form;
  data::LongExamples long_examples = data::LongExamples::kError;
  std::vector<ValidationSource> validation;
  std::string split;
  int64_t sequence_length = 0, target_length = 0;
  bool intra_document_masking = false;
  Objective objective = Objective::kNextToken;
  double noise_density = 0.15, mean_span = 3;
  bool allow_foreign_tokenizer = false;

  static void fields(auto& self, auto&& visit) {
    visit("tokenizer", self.tokenizer,
          "a tokenizer.json or SentencePiece model; a copy is stored in each checkpoint");
    visit("train", self.train, "datasets made by `tessera data build`, blended by weight");
    visit("stages", self.stages,
          "other blends later: each holds from that token of the run on, until the next one");
    visit(
        "size_exponent", self.size_exponent,
        "exponent s of a dataset's size in its share, weight × tokens^s; 0: the weight alone (mT5 "
        "uses 0.3)",
        between(0, 1));
    visit("instructions", self.instructions,
          "instead of train: files of conversations or of prompts and answers (JSON Lines, or one "
          "JSON list per file)");
    visit("template", self.form,
          "text of an instruction: 'Question: {prompt}\nAnswer: {response}'; the loss is on the "
          "response, the text after it and the end-of-text token; empty: the chat template");
    visit("long_examples", self.long_examples, "instructions longer than a sample");
    visit("validation", self.validation,
          "datasets whose loss is measured, each separately (with data.instructions: JSON lines)");
    visit(
        "split", self.split,
        "shares of train, validation and test within each dataset of data.train, such as 969,30,1");
    visit("sequence_length", self.sequence_length, "tokens per sample; 0: model.context",
          at_least(0));
    visit("target_length", self.target_length,
          "tokens per sample of the decoder of an encoder–decoder model (its encoder reads "
          "data.sequence_length); 0: what span corruption needs",
          at_least(0));
    visit("intra_document_masking", self.intra_document_masking,
          "attention stays within a document, and positions start at 0 in each; default: "
          "true for data.instructions (not with an encoder), otherwise false");
    visit("objective", self.objective,
          "training objective: next-token prediction, or span corruption as in T5");
    visit("noise_density", self.noise_density,
          "span_corruption: fraction of tokens that are masked", between(1e-6, kBelowOne));
    visit("mean_span", self.mean_span, "span_corruption: mean number of tokens per span",
          between(1, 1e6));
    visit("allow_foreign_tokenizer", self.allow_foreign_tokenizer,
          "read datasets that were built with a tokenizer whose ids mean other texts");
  }
};

// Reports kinds of data that do not fit each other or the model's family. Requires values within
// their ranges.
void check(const DataSection& data, DataUse use, const RunConfig& run, KeyErrors& errors);

}  // namespace tessera::config
