// Imports models from Hugging Face folders (config.json, safetensors, tokenizer.json) and exports
// them. Both directions stream: they hold at most one tensor in memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "model/model_config.h"

namespace tessera::checkpoint {

struct HfImport {
  model::ModelConfig model;
  int64_t tensors = 0, parameters = 0;
  DType stored_as = DType::kF32;  // dtype in the folder; bf16 and f16 are widened, which is exact
  bool has_tokenizer = false;
  std::vector<std::string> skipped;  // names of tensors not imported, such as attention masks
};

// Creates a checkpoint of step 0 at `checkpoint`, with weights in f32. Throws Error if the family
// or a feature in config.json is not supported, if tensors are missing, extra or have another shape
// (one Error lists them all), or if `checkpoint` exists already. With `with_tokenizer` = false, the
// checkpoint gets no tokenizer.
HfImport import_hf(const Path& hf_folder, const Path& checkpoint, const std::string& version,
                   bool with_tokenizer = true, const OnTensor& on_tensor = {});

// Properties of a SentencePiece model. The caller of export_hf() supplies them, since this module
// does not parse such models.
struct SentencePieceIds {
  int32_t end_of_text = 1;
  int64_t sentinels = 0;
  std::vector<std::pair<std::string, std::string>> names = {};  // {"eos_token", its piece}, …
  std::string tokenizer_json = {};  // not empty if transformers' class for the family is unsuitable
};

struct HfExportOptions {
  DType dtype = DType::kF32;  // f32, bf16 or f16; narrowing rounds to nearest even
  int64_t max_file_bytes = 5'000'000'000;
  bool averages = false;  // the exponential means of weights instead of the weights
  std::optional<SentencePieceIds> sentencepiece = {};  // given if the tokenizer is such a model
  // Number of entries of the tokenizer. Rows of the embedding and of the LM head from the larger of
  // this and model.vocabulary on are padding, and are not written.
  int64_t tokenizer_vocabulary = 0;
};

struct HfExport {
  model::ModelConfig model;  // the model as written, without padding of the vocabulary
  int64_t tensors = 0, parameters = 0;
  std::vector<std::string> files;      // names of the files of weights
  std::optional<int64_t> end_of_text;  // written to config.json as bos and eos
  bool has_tokenizer = false;
  // Descriptions of the dropout settings that a config.json of this family cannot express.
  std::vector<std::string> unsaid;
};

// Writes the weights (the f32 master weights if the checkpoint has them), config.json,
// generation_config.json and the tokenizer to `hf_folder`, which appears only when it is complete.
// Throws Error if the checkpoint lacks tensors of its model or if `hf_folder` exists and is not
// empty.
HfExport export_hf(const Path& checkpoint, const Path& hf_folder, const HfExportOptions& options,
                   const OnTensor& on_tensor = {});

// Returns the id of the end-of-text token in a tokenizer.json, which is found by its usual
// spellings, and writes the spelling to `text`. `source` names the JSON in errors.
std::optional<int64_t> end_of_text_token(std::string_view tokenizer_json, const std::string& source,
                                         std::string* text);

// The special tokens that an imported folder puts around texts, as stored in the checkpoint's
// header.
struct HfTextRules {
  // Tokens before and after each text, if the class of a SentencePiece model adds them.
  std::optional<int32_t> begin, end;
  // Ids that end generation: those of the run (set_ends), otherwise eos_token_id of
  // generation_config.json or config.json.
  std::vector<int32_t> stops;
};
HfTextRules hf_text_rules(const CheckpointHeader& header);

// Sets the ids that end generation, for a run of instruction tuning.
void set_ends(const std::vector<int32_t>& ids, CheckpointHeader& header);

// Return and set the chat template in a header's state: that of chat_template.jinja, or the default
// one of tokenizer_config.json; empty: none. set_chat_template() has no effect if it is the same as
// that which keep_text_rules() copies.
std::string chat_template_of(const CheckpointHeader& header);
void set_chat_template(const std::string& text, CheckpointHeader& header);

// Copies the text settings of `from` (tokens around a text, chat templates, generation defaults) to
// the header of a run that started from its weights, if the tokenizer is the same. The ids that end
// generation (stops) are not copied, because the new run has its own.
void keep_text_rules(const CheckpointHeader& from, CheckpointHeader& to);

}  // namespace tessera::checkpoint
