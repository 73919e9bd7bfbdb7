// Writes the weights of a checkpoint as a Hugging Face folder, which transformers can load:
// safetensors files, config.json, generation_config.json and the tokenizer's files. Tensors are
// renamed, transposed and converted on the way, in bounded memory: a tensor that is stored in one
// piece is read from the mapped file directly. The folder is filled under a temporary name and
// renamed at the end.
#include <algorithm>
#include <array>

#include "base/config.h"
#include "base/mapped_fault.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/durable.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_text.h"
#include "checkpoint/index.h"
#include "checkpoint/merge.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stored_model.h"
#include "model/check_model.h"
#include "model/family.h"
#include "model/hf_config.h"
#include "model/hf_names.h"
#include "model/presets.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::array kEndOfText{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Removes the padding of the vocabulary. A model that was imported with padding states it as its
// vocabulary, and keeps it.
model::ModelConfig without_padding(model::ModelConfig model, int64_t tokenizer_vocabulary) {
  model.vocabulary =
      std::min(std::max(model.vocabulary, tokenizer_vocabulary), model.padded_vocabulary());
  model.vocabulary_multiple = 1;
  return model;
}

// Returns the tensors of `exported` as parts of those of `stored`: the first rows, if the padding
// of the vocabulary is removed.
std::vector<model::HfTensor> exported_tensors(const model::ModelConfig& stored,
                                              const model::ModelConfig& exported) {
  std::vector<model::HfTensor> names = model::hf_tensors(exported);
  const std::vector<model::HfTensor> whole = model::hf_tensors(stored);
  for (size_t i = 0; i < names.size(); ++i) names[i].shape = whole[i].shape;
  return names;
}

// Returns true if `part` is the first rows of `tensor`, or all of it.
bool is_first_rows(const model::HfTensor& part, const Shape& tensor) {
  Shape rows = tensor;
  rows[0] = part.part()[0];
  return rows == part.part() &&
         std::all_of(part.begin.begin(), part.begin.end(), [](int64_t at) { return at == 0; });
}

// Fills the tensors of an export, one Hugging Face tensor at a time, in bounded memory.
class ExportedWeights {
 public:
  ExportedWeights(CheckpointReader& reader, const std::vector<model::HfTensor>& names, DType dtype)
      : reader_(reader), names_(names), stored_(stored_weights(reader, names)), dtype_(dtype) {}

  FillPiece fill(std::span<const model::HfTensor> parts) {
    // The pages of the tensor before are checked and released, so the export of a large model does
    // not fill memory with mapped pages.
    require_mapped_reads();
    for (const std::span<const std::byte> bytes : mapped_) release_pages(bytes);
    mapped_.clear();
    gathered_.resize(parts.size());
    std::vector<FillPiece> fills;
    std::vector<int64_t> elements;
    for (size_t i = 0; i < parts.size(); ++i) {
      fills.push_back(fill(parts[i], gathered_[i]));
      elements.push_back(parts[i].view.elements());
    }
    return joined(std::move(fills), std::move(elements), size_of(dtype_));
  }

 private:
  // `gathered` receives a tensor that is stored in several pieces, or a part of one.
  FillPiece fill(const model::HfTensor& name, std::vector<std::byte>& gathered) {
    const StoredTensor& t = *stored_[&name - names_.data()];
    const Shape part = name.part();
    std::span<const std::byte> bytes;
    const size_t part_bytes = part.elements() * size_of(t.dtype);
    // A tensor stored in one piece is read from the mapped file without a copy. If only its first
    // rows are exported (a padded vocabulary), they are a prefix of its bytes.
    if (t.pieces.size() == 1 && is_first_rows(name, t.shape)) {
      mapped_.push_back(reader_.whole(t));
      bytes = mapped_.back().first(part_bytes);
    } else {
      gathered.resize(part_bytes);
      reader_.read(t.name, name.begin, name.end(), {gathered.data(), t.dtype, part});
      bytes = gathered;
    }
    return transposed(bytes, t.dtype, part, model::inverse(name.axes), dtype_);
  }

  CheckpointReader& reader_;
  const std::vector<model::HfTensor>& names_;
  std::vector<const StoredTensor*> stored_;
  DType dtype_;
  std::vector<std::vector<std::byte>> gathered_;
  std::vector<std::span<const std::byte>> mapped_;
};

std::vector<std::string> write_weights(CheckpointReader& reader,
                                       const std::vector<model::HfTensor>& names,
                                       const Path& folder, const HfExportOptions& options,
                                       const OnTensor& on_tensor) {
  const auto groups = model::by_theirs(names);
  std::vector<SafetensorsPlan> plans;
  for (const auto& group : groups)
    plans.push_back({group[0].theirs, options.dtype, group[0].their_shape});
  ExportedWeights weights(reader, names, options.dtype);
  auto written = write_safetensors_folder(folder, plans, options.max_file_bytes, [&](size_t i) {
    if (on_tensor) on_tensor(static_cast<int64_t>(i), std::ssize(groups));
    return weights.fill(groups[i]);
  });
  require_mapped_reads();
  return written;
}

std::string pretty(const Tree& tree) { return to_json(tree, 2) + "\n"; }

void write_tokenizer(const Path& folder, const CheckpointHeader& header, const std::string& end,
                     int64_t context) {
  write_file(folder / kTokenizerFile, header.tokenizer);
  Tree config = Tree::object();
  config.set("tokenizer_class", Tree(std::string("PreTrainedTokenizerFast")));
  config.set("model_max_length", Tree(context));
  for (const char* key : {"bos_token", "eos_token"})
    if (!end.empty()) config.set(key, Tree(end));
  complete_tokenizer_config(header, true, config);
  write_file(folder / "tokenizer_config.json", pretty(config));
}

// Returns one id as a number, several as a list.
Tree ids_of(const std::vector<int32_t>& ids) {
  Tree list = Tree::list();
  for (const int32_t id : ids) list.push(Tree(int64_t{id}));
  return ids.size() == 1 ? Tree(int64_t{ids[0]}) : list;
}

// Writes a SentencePiece model and its tokenizer_config.json. transformers has one tokenizer class
// per model family for it.
void write_sentencepiece(const Path& folder, const CheckpointHeader& header,
                         const model::ModelConfig& model,
                         const std::optional<SentencePieceIds>& ids) {
  const HfTextRules texts = hf_text_rules(header);
  const model::ModelFamily& family = model::rule_of(model.family);
  const bool described = ids && !ids->tokenizer_json.empty();
  write_file(folder / family.hf_tokenizer_file, header.tokenizer);
  if (described) write_file(folder / kTokenizerFile, ids->tokenizer_json);
  Tree config = Tree::object();
  config.set("tokenizer_class",
             Tree(std::string(described ? "PreTrainedTokenizerFast" : family.hf_tokenizer)));
  config.set("model_max_length", Tree(model.context));
  if (ids)
    for (const auto& [key, piece] : ids->names) config.set(key, Tree(piece));
  if (!family.has_encoder) {
    config.set("add_bos_token", Tree(texts.begin.has_value()));
    config.set("add_eos_token", Tree(texts.end.has_value()));
  }
  // transformers adds `extra_ids` sentinels after the pieces. A tokenizer that has its own among
  // the pieces, such as mT5's, must not get others.
  if (family.has_encoder && !described)
    config.set("extra_ids", Tree(int64_t{ids && ids->sentinels > 0 ? 0 : 100}));
  complete_tokenizer_config(header, false, config);
  write_file(folder / "tokenizer_config.json", pretty(config));
}

// Returns the dropout settings that transformers would not apply as the run did. They are found by
// writing a config of a minimal model with these settings and reading it back.
std::vector<std::string> unsaid_dropout(const model::ModelConfig& model) {
  model::ModelConfig small;
  model::apply_family(model.family, small);
  small.layers = small.heads = small.kv_heads = 1;
  small.encoder_layers = model.encoder_layers > 0 ? 1 : 0;
  small.hidden = small.feed_forward = small.vocabulary = small.context = 64;
  small.shared_feed_forward = model.shared_feed_forward > 0 ? 64 : 0;
  small.dropout = model.dropout;
  small.attention_dropout = model.attention_dropout;
  small.embedding_dropout = model.embedding_dropout;
  const model::ModelConfig back = model::model_from_hf_config(
      model::hf_config_of_model(small, std::nullopt, DType::kF32), "config.json");
  std::vector<std::string> unsaid;
  const auto compare = [&](const char* key, double ours, double theirs) {
    if (ours != theirs)
      unsaid.push_back(
          fmt::format("model.{} = {}, which transformers reads as {}", key, ours, theirs));
  };
  compare("dropout", model.dropout, back.dropout);
  compare("attention_dropout", model.attention_dropout, back.attention_dropout);
  // The dropout of embeddings is compared only if it is set. Otherwise it equals `dropout`, which
  // has been compared.
  if (model.embedding_dropout >= 0 || back.embedding_dropout >= 0)
    compare("embedding_dropout", model.dropout_of_embeddings(), back.dropout_of_embeddings());
  return unsaid;
}

// Throws Error if transformers' class would not compute the model: writes the config, reads it back
// and compares the two.
void require_expressible(const model::ModelConfig& model, const Path& checkpoint) {
  model::ModelConfig back = model::model_from_hf_config(
      model::hf_config_of_model(model, std::nullopt, DType::kF32), "config.json");
  if (model.tied_embeddings) model::tie_missing_head(back);
  for (const Change& c : differences(tessera::to_tree(model::comparable(model)),
                                     tessera::to_tree(model::comparable(back))))
    if (c.path != "vocabulary" && model::changes_model(c.path, model.family))
      throw Error(
          "{}: has model.{} = {}, which transformers' class for family {} cannot express (it would "
          "compute {}). Export is not supported for this model; use Tessera's eval and generate.",
          checkpoint.string(), c.path, c.before, name_of_entry(model.family), c.after);
}

Path without_slash(const Path& path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

std::optional<int64_t> end_of_text_token(std::string_view tokenizer_json, const std::string& source,
                                         std::string* text) {
  const Tree root = parse_json(tokenizer_json, source);
  const Tree* added = root.find("added_tokens");
  if (!added || !added->as_list()) return std::nullopt;
  // The spellings are tried in the order of the list, whatever the order of the tokens.
  for (const char* spelling : kEndOfText)
    for (const Tree& token : *added->as_list()) {
      const Tree *content = token.find("content"), *id = token.find("id");
      if (!content || !id || !content->as_string() || *content->as_string() != spelling) continue;
      if (const auto* number = std::get_if<int64_t>(&id->value)) {
        *text = spelling;
        return *number;
      }
    }
  return std::nullopt;
}

HfExport export_hf(const Path& checkpoint, const Path& hf_folder, const HfExportOptions& options,
                   const OnTensor& on_tensor) {
  const Path place = without_slash(hf_folder);
  std::error_code error;
  if (fs::exists(place, error) && !fs::is_empty(place, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", place.string());
  CheckpointReader reader(checkpoint);
  if (options.averages) reader.use_averages();
  if (has_adapters(reader))
    throw Error(
        "{}: contains adapters, which an export would lose. Merge them into the weights with   "
        "tessera checkpoint merge {}{} --out MERGED   and export that.",
        checkpoint.string(), checkpoint.string(), options.averages ? " --weights ema" : "");
  require_logits(reader);
  HfExport result;
  const model::ModelConfig stored = stored_model(reader);
  require_expressible(stored, checkpoint);
  result.model = without_padding(stored, options.tokenizer_vocabulary);
  const auto names = exported_tensors(stored, result.model);
  result.tensors = std::ssize(model::by_theirs(names));
  for (const model::HfTensor& t : names) result.parameters += t.part().elements();

  // From here on, files are written, in a folder with a temporary name.
  PartFolder part(place);
  result.files = write_weights(reader, names, part.path(), options, on_tensor);
  const std::string& tokenizer = reader.header().tokenizer;
  const HfTextRules texts = hf_text_rules(reader.header());
  std::string end;
  if (!tokenizer.empty()) {
    result.has_tokenizer = true;
    if (tokenizer_file_name(tokenizer) == std::string_view(kTokenizerFile)) {
      const std::string source = (checkpoint / kTokenizerFile).string();
      result.end_of_text = end_of_text_token(tokenizer, source, &end);
      write_tokenizer(part.path(), reader.header(), end, result.model.context);
    } else {
      if (options.sentencepiece) result.end_of_text = options.sentencepiece->end_of_text;
      write_sentencepiece(part.path(), reader.header(), result.model, options.sentencepiece);
    }
    write_chat_templates(reader.header(), part.path());
  }
  Tree config = model::hf_config_of_model(result.model, result.end_of_text, options.dtype);
  result.unsaid = unsaid_dropout(result.model);
  Tree generation = model::hf_generation_config(result.model, result.end_of_text);
  // Ids of the imported model or of the run's data override the family's defaults.
  for (Tree* said : {&config, &generation}) {
    if (!texts.stops.empty()) said->set("eos_token_id", ids_of(texts.stops));
    if (texts.begin) said->set("bos_token_id", Tree(int64_t{*texts.begin}));
  }
  complete_generation_config(reader.header(), generation);
  write_file(part.path() / "generation_config.json", pretty(generation));
  write_file(part.path() / "config.json", pretty(config));
  part.put();
  return result;
}

}  // namespace tessera::checkpoint
