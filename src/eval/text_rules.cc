#include "eval/text_rules.h"

#include <algorithm>

#include "checkpoint/hf_folder.h"
#include "eval/language_model.h"

namespace tessera::eval {

// The beginning token of the tokenizer has precedence over the one that was imported with the
// checkpoint.
SpecialTokenRules text_rules(const checkpoint::CheckpointReader& checkpoint,
                             const data::Tokenizer& tokenizer) {
  const model::ModelConfig model = model_of(checkpoint);
  const checkpoint::HfTextRules imported = checkpoint::hf_text_rules(checkpoint.header());
  SpecialTokenRules r;
  r.has_encoder = model.encoder_layers > 0;
  r.vocabulary = std::max<int64_t>(model.vocabulary, tokenizer.vocabulary_size());
  r.vocabulary = std::min(r.vocabulary, model.padded_vocabulary());
  r.begin = tokenizer.text_begin() ? tokenizer.text_begin() : imported.begin;
  if (r.has_encoder) r.end = tokenizer.source_end();
  r.alone = r.begin ? r.begin : tokenizer.end_of_text();
  r.stops = imported.stops;
  if (r.stops.empty() && tokenizer.end_of_text()) r.stops.push_back(*tokenizer.end_of_text());
  return r;
}

std::vector<int32_t> encode_text(const SpecialTokenRules& rules, const data::Tokenizer& tokenizer,
                                 std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  add_special_tokens(rules, ids);
  return ids;
}

void add_special_tokens(const SpecialTokenRules& rules, std::vector<int32_t>& ids) {
  const bool begun = !ids.empty() && ids.front() == rules.begin;  // the text contains it already
  if (rules.begin && !begun) ids.insert(ids.begin(), *rules.begin);
  if (rules.end) ids.push_back(*rules.end);
}

// The embedding table of a model is padded, so it may have more ids than its tokenizer.
std::string written_text(const data::Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<int32_t> known;
  for (const int32_t id : ids)
    if (id < tokenizer.vocabulary_size()) known.push_back(id);
  return tokenizer.decode(known);
}

}  // namespace tessera::eval
