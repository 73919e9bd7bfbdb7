// Finds the chat template of a run: in a file, in the checkpoint it starts from, or next to its
// tokenizer.
#include "train/load_run.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_text.h"
#include "data/chat_settings.h"
#include "data/tokenizer.h"

namespace tessera::train {
namespace {

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
      "instead of '{}'. Remove data.chat_template, or set data.allow_other_template=true",
      config.chat.chat_template, config.checkpoint.from, ours, theirs);
}

}  // namespace

data::ChatSpec chat_spec(const config::RunConfig& config, const data::Tokenizer& tokenizer) {
  data::ChatSpec spec;
  spec.names = config::chat_names(config.chat);
  spec.learned = config.chat.learn;
  const checkpoint::CheckpointHeader header = text_settings(config);
  const std::string stored = checkpoint::chat_template_of(header);
  std::string text = stored;
  std::string source =
      (config.checkpoint.from.empty() ? config.data.tokenizer : config.checkpoint.from) +
      " (chat template)";
  if (!config.chat.chat_template.empty()) {
    source = config.chat.chat_template;
    text = read_file(source);
    require_same_template(config, text, stored);
  }
  if (text.empty()) return spec;
  Tree variables = checkpoint::special_token_names(header);
  for (const auto& [name, value] : *config.chat.template_values.values.as_members())
    variables.set(name, value);
  data::ChatSettings settings =
      data::chat_settings(std::move(text), std::move(source), variables,
                          checkpoint::hf_text_rules(header).stops, tokenizer);
  settings.now = config::date_of(config.chat.template_date);
  spec.form = std::make_shared<const data::ChatTemplate>(std::move(settings), tokenizer);
  return spec;
}

}  // namespace tessera::train
