// Writes a unigram model as a tokenizer.json. The components (Precompiled, Metaspace, Replace,
// ByteFallback, Strip) are those that Hugging Face's converter uses for SentencePiece models.
#include "data/sentencepiece_model.h"
#include "data/unicode.h"

#include <utility>

#include "base/tree.h"

namespace tessera::data {
namespace {

Tree text(std::string_view s) { return Tree(std::string(s)); }

Tree object(Tree::Members members) { return Tree(std::move(members)); }

// Returns the base64 encoding (RFC 4648) with padding.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t there = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < there ? byte_at(bytes, i + k) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= there ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

Tree replace(const char* kind, std::string_view pattern, std::string_view content) {
  return object({{"type", text("Replace")},
                 {"pattern", object({{kind, text(pattern)}})},
                 {"content", text(content)}});
}

// Returns the steps that SentencePiece applies to a text before it segments it, except the space in
// front.
Tree normalizer(const SentencePieceModel& model) {
  Tree::List steps;
  if (!model.characters_map.empty())
    steps.push_back(object({{"type", text("Precompiled")},
                            {"precompiled_charsmap", text(base64(model.characters_map))}}));
  if (model.remove_extra_spaces) {
    steps.push_back(replace("Regex", "^ +| +$", ""));
    steps.push_back(replace("Regex", " {2,}", " "));
  }
  return object({{"type", text("Sequence")}, {"normalizers", Tree(std::move(steps))}});
}

Tree pre_tokenizer(const SentencePieceModel& model) {
  return object({{"type", text("Metaspace")},
                 {"replacement", text(kSpaceCharacter)},
                 {"prepend_scheme", text(model.add_dummy_prefix ? "always" : "never")},
                 {"split", Tree(false)}});
}

Tree decoder(const SentencePieceModel& model) {
  Tree::List steps;
  steps.push_back(replace("String", kSpaceCharacter, " "));
  steps.push_back(object({{"type", text("ByteFallback")}}));
  steps.push_back(object({{"type", text("Fuse")}}));
  if (model.add_dummy_prefix)
    steps.push_back(object({{"type", text("Strip")},
                            {"content", text(" ")},
                            {"start", Tree(int64_t{1})},
                            {"stop", Tree(int64_t{0})}}));
  return object({{"type", text("Sequence")}, {"decoders", Tree(std::move(steps))}});
}

// Lists special pieces and user-defined symbols. Symbols that contain a space, such as sentinels,
// are only part of the model: their pieces have score 0, which wins over all others.
Tree added_tokens(const SentencePieceModel& model) {
  Tree::List added;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    const bool special = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    const bool symbol = piece.type == PieceType::kUserDefined &&
                        piece.text.find(kSpaceCharacter) == std::string::npos;
    if (!special && !symbol) continue;
    added.push_back(object({{"id", Tree(static_cast<int64_t>(id))},
                            {"content", text(piece.text)},
                            {"single_word", Tree(false)},
                            {"lstrip", Tree(false)},
                            {"rstrip", Tree(false)},
                            {"normalized", Tree(false)},
                            {"special", Tree(special)}}));
  }
  return Tree(std::move(added));
}

Tree post_processor(const SentencePieceModel& model, const TextTemplate& around) {
  Tree tokens = Tree::object();
  Tree::List single, pair;
  const auto put = [&](const char* kind, std::string_view id) {
    single.push_back(object({{kind, object({{"id", text(id)}, {"type_id", Tree(int64_t{0})}})}}));
  };
  const auto put_token = [&](const std::string& name) {
    if (name.empty() || model.control_id(name) < 0) return;
    put("SpecialToken", name);
    tokens.set(name, object({{"id", text(name)},
                             {"ids", Tree(Tree::List{Tree(int64_t{model.control_id(name)})})},
                             {"tokens", Tree(Tree::List{text(name)})}}));
  };
  // Builds the template of a pair, in the order B, A. The loop ends with the template of the single
  // text A in `single`.
  for (const char* part : {"B", "A"}) {
    single.clear();
    put_token(around.begin);
    put("Sequence", part);
    put_token(around.end);
    pair.insert(pair.begin(), single.begin(), single.end());
  }
  if (tokens.as_members()->empty()) return {};
  return object({{"type", text("TemplateProcessing")},
                 {"single", Tree(std::move(single))},
                 {"pair", Tree(std::move(pair))},
                 {"special_tokens", std::move(tokens)}});
}

Tree unigram(const SentencePieceModel& model) {
  Tree::List vocabulary;
  int64_t unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (piece.type == PieceType::kUnknown) unknown = id;
    vocabulary.push_back(Tree(Tree::List{text(piece.text), Tree(double{piece.score})}));
  }
  return object({{"type", text("Unigram")},
                 {"unk_id", Tree(unknown)},
                 {"vocab", Tree(std::move(vocabulary))},
                 {"byte_fallback", Tree(model.byte_fallback)}});
}

}  // namespace

std::string unigram_tokenizer_json(const SentencePieceModel& model, const TextTemplate& around) {
  const bool sayable =
      model.kind == SentencePieceKind::kUnigram && model.escape_spaces && !model.space_as_suffix;
  if (!sayable) return {};
  const Tree root = object({{"version", text("1.0")},
                            {"truncation", Tree()},
                            {"padding", Tree()},
                            {"added_tokens", added_tokens(model)},
                            {"normalizer", normalizer(model)},
                            {"pre_tokenizer", pre_tokenizer(model)},
                            {"post_processor", post_processor(model, around)},
                            {"decoder", decoder(model)},
                            {"model", unigram(model)}});
  return to_json(root) + "\n";
}

}  // namespace tessera::data
