// Finds the chat template of a run: in a file, in the checkpoint it starts from, or next to its
// tokenizer.
#include "train/chat_spec.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_text.h"
#include "data/tokenizer.h"
#include "train/load_run.h"

namespace tessera::train {
namespace {

// The variables for special tokens that transformers passes to a template.
constexpr std::array kTokenVariables{"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};

// Returns a header with the text settings of the folder that supplies the tokenizer, or of
// checkpoint.from. It has no state if neither is a folder with such settings.
checkpoint::CheckpointHeader text_settings(const config::RunConfig& config) {
  if (!config.checkpoint.from.empty())
    return checkpoint::CheckpointReader(origin_checkpoint(config)).header();
  checkpoint::CheckpointHeader header;
  header.state = Tree::object();
  const Path folder = config.data.tokenizer;
  if (std::filesystem::is_directory(folder))
    checkpoint::read_text_rules(folder, Tree::object(), false, header.state);
  return header;
}

// Returns the first line in which two templates differ, of each.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b) {
  size_t at = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i)
    if (a[i] == '\n') at = i + 1;
  constexpr size_t kShown = 60;
  const auto line = [&](std::string_view s) {
    s = s.substr(std::min(at, s.size()));
    return std::string(s.substr(0, std::min(s.find('\n'), kShown)));
  };
  return {line(a), line(b)};
}

void require_same_template(const config::RunConfig& config, const std::string& given,
                           const std::string& stored) {
  if (config.chat.allow_other_template || stored.empty() || stored == given) return;
  const auto [ours, theirs] = first_difference(given, stored);
  throw Error(
      "data.chat_template = {} differs from the chat template of checkpoint.from = {}: '{}' "
      "instead "
      "of '{}'. Remove data.chat_template, or set data.allow_other_template=true",
      config.chat.chat_template, config.checkpoint.from, ours, theirs);
}

// Returns the variables of the template: the names of special tokens, then those of the run file.
Tree variables_of(const config::RunConfig& config, const checkpoint::CheckpointHeader& header,
                  const data::Tokenizer& tokenizer) {
  Tree variables = Tree::object();
  if (const auto begin = tokenizer.text_begin())
    variables.set("bos_token", Tree(std::string(tokenizer.token_bytes(*begin))));
  if (const auto end = tokenizer.end_of_text())
    variables.set("eos_token", Tree(std::string(tokenizer.token_bytes(*end))));
  const Tree* kept = header.state.as_members() ? header.state.find("tokenizer_config") : nullptr;
  for (const char* name : kTokenVariables) {
    const Tree* token = kept != nullptr ? kept->find(name) : nullptr;
    // A token is a text, or an object with its text and properties.
    if (token != nullptr && token->as_members() != nullptr) token = token->find("content");
    if (token != nullptr && token->as_string() != nullptr) variables.set(name, *token);
  }
  for (const auto& [name, value] : *config.chat.template_values.values.as_members())
    variables.set(name, value);
  return variables;
}

std::vector<std::string> turn_ends(const checkpoint::CheckpointHeader& header,
                                   const data::Tokenizer& tokenizer, const Tree& variables) {
  std::vector<std::string> ends = data::known_turn_ends(tokenizer);
  const auto add = [&](std::string name) {
    if (!name.empty() && std::find(ends.begin(), ends.end(), name) == ends.end())
      ends.push_back(std::move(name));
  };
  if (const Tree* end = variables.find("eos_token"); end != nullptr && end->as_string() != nullptr)
    add(*end->as_string());
  for (const int32_t id : checkpoint::hf_text_rules(header).stops)
    if (id < tokenizer.vocabulary_size()) add(std::string(tokenizer.token_bytes(id)));
  return ends;
}

}  // namespace

data::ChatSpec chat_spec(const config::RunConfig& config, const data::Tokenizer& tokenizer) {
  data::ChatSpec spec;
  spec.names = config::chat_names(config.chat);
  spec.learned = config.chat.learn;
  const checkpoint::CheckpointHeader header = text_settings(config);
  const std::string stored = checkpoint::chat_template_of(header);
  data::ChatSettings settings;
  settings.text = stored;
  settings.source = config.checkpoint.from.empty() ? config.data.tokenizer : config.checkpoint.from;
  settings.source += " (chat template)";
  if (!config.chat.chat_template.empty()) {
    settings.source = config.chat.chat_template;
    settings.text = read_file(settings.source);
    require_same_template(config, settings.text, stored);
  }
  if (settings.text.empty()) return spec;
  settings.variables = variables_of(config, header, tokenizer);
  settings.ends = turn_ends(header, tokenizer, settings.variables);
  settings.now = config::date_of(config.chat.template_date);
  spec.form = std::make_shared<const data::ChatTemplate>(std::move(settings), tokenizer);
  return spec;
}

}  // namespace tessera::train
