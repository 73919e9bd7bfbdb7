// Carries the text settings of a Hugging Face folder (stop ids, chat templates, tokenizer and
// generation settings) through a checkpoint, so that an export has the same settings.
#include "checkpoint/hf_text.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text_template.h"
#include "base/utf8.h"
#include "checkpoint/durable.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/index.h"

namespace tessera::checkpoint {
namespace {

Tree read_if_there(const Path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  return parse_json(read_file(file), file.string());
}

const Tree* given(const Tree& tree, std::string_view key) {
  const Tree* t = tree.as_members() ? tree.find(key) : nullptr;
  return t && !t->is_null() ? t : nullptr;
}

// Returns one id, or a list of ids, as a list.
Tree as_list(const Tree& ids) {
  if (ids.as_list()) return ids;
  Tree list = Tree::list();
  list.push(ids);
  return list;
}

// Reads the tokens around a text: from tokenizer_config.json, or from the template in
// tokenizer.json if the former has no setting.
void read_around(const Path& folder, const Tree& config, Tree& state) {
  const Tree said = read_if_there(folder / "tokenizer_config.json");
  TextTemplate around;
  if (!given(said, "add_bos_token") || !given(said, "add_eos_token"))
    around = read_text_template(read_if_there(folder / kTokenizerFile));
  const auto adds = [&](const char* key, const std::string& token) {
    const Tree* t = given(said, key);
    const bool* yes = t ? std::get_if<bool>(&t->value) : nullptr;
    return t ? yes && *yes : !token.empty();
  };
  const Tree* begin = given(config, "bos_token_id");
  if (begin && adds("add_bos_token", around.begin)) state.set("begin", *begin);
  const Tree* end = given(config, "eos_token_id");
  if (!end || !adds("add_eos_token", around.end)) return;
  const Tree::List* several = end->as_list();
  if (!several || !several->empty()) state.set("end", several ? several->front() : *end);
}

constexpr const char* kEndsKey = "ends";
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTemplateFolder = "additional_chat_templates";

// The keys of tokenizer_config.json that an export repeats: names of special tokens, and others.
constexpr std::array kTokenNames{
    "bos_token",           "eos_token", "pad_token",  "unk_token",
    "sep_token",           "cls_token", "mask_token", "additional_special_tokens",
    "extra_special_tokens"};
// The subset of them that transformers passes to a chat template.
constexpr std::array kTokenVariables{"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};
constexpr std::array kOtherKeys{"chat_template", "clean_up_tokenization_spaces", "padding_side",
                                "truncation_side"};

// The keys of generation_config.json that an export sets itself or that are not about sampling.
constexpr std::array kOwnGenerationKeys{"eos_token_id", "decoder_start_token_id",
                                        "transformers_version", "_from_model_config"};

// Adds the object to the header, unless it has no members.
void set_if_filled(const char* key, Tree object, Tree& state) {
  if (object.as_members() && !object.as_members()->empty()) state.set(key, std::move(object));
}

// Reads a text file. Throws Error if it is not UTF-8, which the JSON of a header requires.
Tree text_of(const Path& file) {
  std::string text = read_file(file);
  for (size_t at = 0, n = 0; at < text.size(); at += n) {
    n = utf8_length(text, at);
    if (n == 0)
      throw Error("{}: byte {} is not UTF-8. Correct the file, or remove it to import without it.",
                  file.string(), at);
  }
  return Tree(std::move(text));
}

void read_templates(const Path& folder, Tree& state) {
  std::error_code error;
  if (std::filesystem::exists(folder / kTemplateFile, error))
    state.set("chat_template", text_of(folder / kTemplateFile));
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / kTemplateFolder, error))
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  // The order of a directory depends on the file system.
  std::sort(files.begin(), files.end());
  Tree several = Tree::object();
  for (const Path& file : files) several.set(file.stem().string(), text_of(file));
  set_if_filled("chat_templates", std::move(several), state);
}

void read_defaults(const Path& folder, const Tree& generation, Tree& state) {
  const Tree tokenizer = read_if_there(folder / "tokenizer_config.json");
  Tree kept = Tree::object(), sampling = Tree::object();
  const auto keep = [&](const char* key) {
    if (const Tree* value = tokenizer.find(key)) kept.set(key, *value);  // a null value is kept
  };
  for (const char* key : kTokenNames) keep(key);
  for (const char* key : kOtherKeys) keep(key);
  set_if_filled("tokenizer_config", std::move(kept), state);
  if (generation.as_members())
    for (const auto& [key, value] : *generation.as_members())
      if (std::find(kOwnGenerationKeys.begin(), kOwnGenerationKeys.end(), key) ==
          kOwnGenerationKeys.end())
        sampling.set(key, value);
  set_if_filled("generation", std::move(sampling), state);
}

std::optional<int32_t> as_id(const Tree& t) {
  const auto* n = std::get_if<int64_t>(&t.value);
  if (!n || *n < 0 || *n > INT32_MAX) return std::nullopt;
  return static_cast<int32_t>(*n);
}

std::vector<int32_t> ids_in(const Tree* list) {
  std::vector<int32_t> ids;
  if (list && list->as_list())
    for (const Tree& id : *list->as_list())
      if (as_id(id)) ids.push_back(*as_id(id));
  return ids;
}

}  // namespace

void read_text_rules(const Path& folder, const Tree& config, bool by_class, Tree& state) {
  const Tree generation = read_if_there(folder / "generation_config.json");
  // If there is a generation_config.json, config.json is ignored, even if the former has no ids.
  const Tree* ends = given(generation, "eos_token_id");
  if (!ends && !generation.as_members()) ends = given(config, "eos_token_id");
  if (ends) state.set("stops", as_list(*ends));
  if (by_class) read_around(folder, config, state);
  read_templates(folder, state);
  read_defaults(folder, generation, state);
}

void write_chat_templates(const CheckpointHeader& header, const Path& folder) {
  const Tree* text = given(header.state, "chat_template");
  if (text && text->as_string()) write_file(folder / kTemplateFile, *text->as_string());
  const Tree* several = given(header.state, "chat_templates");
  if (!several || !several->as_members()) return;
  make_folder(folder / kTemplateFolder);
  for (const auto& [name, one] : *several->as_members())
    // A name in a header must not refer to a file outside the folder.
    if (one.as_string() && name.find('/') == name.npos)
      write_file(folder / kTemplateFolder / (name + ".jinja"), *one.as_string());
}

void complete_tokenizer_config(const CheckpointHeader& header, bool names, Tree& config) {
  const Tree* kept = given(header.state, "tokenizer_config");
  if (!kept) return;
  const auto repeat = [&](const char* key) {
    if (const Tree* value = kept->find(key)) config.set(key, *value);
  };
  if (names)
    for (const char* key : kTokenNames) repeat(key);
  for (const char* key : kOtherKeys) repeat(key);
}

void complete_generation_config(const CheckpointHeader& header, Tree& config) {
  const Tree* kept = given(header.state, "generation");
  if (!kept || !kept->as_members()) return;
  for (const auto& [key, value] : *kept->as_members()) config.set(key, value);
  config.set("_from_model_config", Tree(false));  // true: transformers regenerates the file
}

HfTextRules hf_text_rules(const CheckpointHeader& header) {
  HfTextRules r;
  // The stop ids of fine-tuning data override those of the imported model.
  r.stops = ids_in(given(header.state, kEndsKey));
  if (!given(header.state, "imported_from")) return r;
  if (const Tree* begin = given(header.state, "begin")) r.begin = as_id(*begin);
  if (const Tree* end = given(header.state, "end")) r.end = as_id(*end);
  if (r.stops.empty()) r.stops = ids_in(given(header.state, "stops"));
  return r;
}

void set_ends(const std::vector<int32_t>& ids, CheckpointHeader& header) {
  if (ids.empty()) return;
  Tree list = Tree::list();
  for (const int32_t id : ids) list.push(Tree(int64_t{id}));
  if (!header.state.as_members()) header.state = Tree::object();
  header.state.set(kEndsKey, std::move(list));
}

std::string chat_template_of(const CheckpointHeader& header) {
  const Tree* text = given(header.state, "chat_template");
  const Tree* kept = given(header.state, "tokenizer_config");
  if (!text && kept) text = given(*kept, "chat_template");
  if (!text) return "";
  if (text->as_string()) return *text->as_string();
  // Several templates are a list of objects with a name and a template each.
  if (text->as_list())
    for (const Tree& one : *text->as_list()) {
      const Tree *name = given(one, "name"), *own = given(one, "template");
      const bool is_default = name && name->as_string() && *name->as_string() == "default";
      if (is_default && own && own->as_string()) return *own->as_string();
    }
  return "";
}

void set_chat_template(const std::string& text, CheckpointHeader& header) {
  if (!header.state.as_members()) header.state = Tree::object();
  header.state.set("chat_template", Tree(text));
}

Tree special_token_names(const CheckpointHeader& header) {
  Tree names = Tree::object();
  const Tree* kept = given(header.state, "tokenizer_config");
  if (!kept) return names;
  for (const char* key : kTokenVariables) {
    const Tree* token = given(*kept, key);
    // A token is a text, or an object with its text and properties.
    if (token && token->as_members()) token = given(*token, "content");
    if (token && token->as_string()) names.set(key, *token);
  }
  return names;
}

void keep_text_rules(const CheckpointHeader& from, CheckpointHeader& to) {
  if (!given(from.state, "imported_from") || from.tokenizer != to.tokenizer) return;
  if (!to.state.as_members()) to.state = Tree::object();
  const std::string own = chat_template_of(to);
  for (const char* key : {"imported_from", "begin", "end", "chat_template", "chat_templates",
                          "tokenizer_config", "generation"})
    if (const Tree* said = given(from.state, key)) to.state.set(key, *said);
  if (own.empty() || own == chat_template_of(from)) {
    if (!given(from.state, "chat_template") && given(to.state, "chat_template"))
      std::erase_if(std::get<Tree::Members>(to.state.value),
                    [](const auto& member) { return member.first == "chat_template"; });
    return;
  }
  // The run has a template of its own, which must not have others next to it.
  to.state.set("chat_template", Tree(own));
  std::erase_if(std::get<Tree::Members>(to.state.value),
                [](const auto& member) { return member.first == "chat_templates"; });
  Tree kept = Tree::object();
  if (const Tree* config = given(to.state, "tokenizer_config"); config && config->as_members())
    for (const auto& [key, value] : *config->as_members())
      if (key != "chat_template") kept.set(key, value);
  to.state.set("tokenizer_config", std::move(kept));
}

}  // namespace tessera::checkpoint
