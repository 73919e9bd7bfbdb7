// Models in Hugging Face's folders (config.json, safetensors, tokenizer.json), in and out. Both
// ways are streams: neither holds more than one tensor in memory, and mostly none.
#pragma once

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
  DType stored_as = DType::kF32;  // in the folder; bf16 and f16 were widened, which is exact
  bool has_tokenizer = false;
  std::vector<std::string> skipped;  // attention masks and the like, by name
};

// Makes a checkpoint of step 0 at `checkpoint`, with weights in f32. Throws Error if the family or
// a feature of config.json is not ours, if tensors are missing, extra or of another shape (one
// Error lists them all), or if `checkpoint` exists already. `with_tokenizer` = false: the
// checkpoint gets no tokenizer.
HfImport import_hf(const Path& hf_folder, const Path& checkpoint, const std::string& version,
                   bool with_tokenizer = true);

// What a SentencePiece model's bytes say only to who reads them.
struct SentencePieceIds {
  int32_t end_of_text = 1;
  int64_t sentinels = 0;
  std::vector<std::pair<std::string, std::string>> names = {};  // "eos_token", its piece, …
  std::string tokenizer_json = {};  // where the class that transformers has for it would not do
};

struct HfExportOptions {
  DType dtype = DType::kF32;  // f32, bf16 or f16; narrowing rounds to nearest even
  int64_t max_file_bytes = 5'000'000'000;
  std::optional<SentencePieceIds> sentencepiece = {};  // where the tokenizer is such a model
  // Entries of the tokenizer. Rows of the embedding and of the head after these and those of
  // model.vocabulary are padding, and are not written.
  int64_t tokenizer_vocabulary = 0;
};

struct HfExport {
  model::ModelConfig model;  // as written: without padding of the vocabulary
  int64_t tensors = 0, parameters = 0;
  std::vector<std::string> files;      // of weights
  std::optional<int64_t> end_of_text;  // written to config.json as bos and eos
  bool has_tokenizer = false;
  // Of dropout, what a config.json of this family has no key for, in words.
  std::vector<std::string> unsaid;
};

// Writes the weights (the f32 masters where the checkpoint has them), config.json,
// generation_config.json and the tokenizer to `hf_folder`, which appears only when it is whole.
// Throws Error if the checkpoint lacks tensors of its model or something stands at `hf_folder`.
HfExport export_hf(const Path& checkpoint, const Path& hf_folder, const HfExportOptions& options);

// The id of the token that ends a text, by its usual spellings, in a tokenizer.json.
std::optional<int64_t> end_of_text_token(std::string_view tokenizer_json, const std::string& source,
                                         std::string* text);

// What a folder said of texts beside its weights, as the header of its import keeps it.
struct HfTextRules {
  // Before and behind each text, where a SentencePiece model's class puts them.
  std::optional<int32_t> begin, end;
  // Ids that end generation: those of the run (set_ends), otherwise eos_token_id of
  // generation_config.json or config.json.
  std::vector<int32_t> stops;
};
HfTextRules hf_text_rules(const CheckpointHeader& header);

// Sets the ids that end generation, for a run on instructions.
void set_ends(const std::vector<int32_t>& ids, CheckpointHeader& header);

// Copies the text settings of `from` (tokens around a text, chat templates, generation defaults) to
// the header of a run that began with its weights, if the tokenizer is the same. The ids that ended
// texts there (stops) are not copied: this run has its own ends.
void keep_text_rules(const CheckpointHeader& from, CheckpointHeader& to);

}  // namespace tessera::checkpoint
