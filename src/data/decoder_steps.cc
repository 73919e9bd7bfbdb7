// Each step maps a list of tokens to another, as in Hugging Face's tokenizers.
//
// decode_inner() is for streams: it returns the text of a token in the middle of an answer, without
// the text around it. Steps that treat the first token differently see an empty one before it;
// steps after Fuse apply to the ends of the whole text only, so they are left out.
#include "data/decoder_steps.h"

#include <charconv>

#include "base/error.h"

namespace tessera::data {
namespace {

using Kind = DecoderStep::Kind;

std::string join(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

// Removes up to `start` and `stop` copies of `content` from the ends.
std::string strip(std::string_view text, const DecoderStep& step) {
  const std::string_view c = step.content;
  for (size_t i = 0; i < step.start && text.starts_with(c); ++i) text.remove_prefix(c.size());
  for (size_t i = 0; i < step.stop && text.ends_with(c); ++i) text.remove_suffix(c.size());
  return std::string(text);
}

// Neighboring byte tokens become one token, so that they may form a character.
std::vector<std::string> join_bytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  bool in_bytes = false;
  for (const std::string& token : tokens) {
    const std::optional<uint8_t> byte = byte_of_token(token);
    const std::string text = byte ? std::string(1, static_cast<char>(*byte)) : token;
    if (byte && in_bytes)
      out.back() += text;
    else
      out.push_back(text);
    in_bytes = byte.has_value();
  }
  return out;
}

}  // namespace

std::optional<uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return byte;
}

Decoder::Decoder(const std::vector<DecoderStep>& steps) {
  for (const DecoderStep& step : steps) {
    steps_.push_back({step, std::nullopt});
    if (step.kind == Kind::kReplace || step.kind == Kind::kMetaspace)
      steps_.back().pattern.emplace(step.pattern);
  }
}

void Decoder::apply(const Step& step, std::vector<std::string>& tokens) const {
  const auto replace = [&](std::string& token, std::string_view content) {
    std::string out;
    step.pattern->replace(token, content, out);
    token = std::move(out);
  };
  switch (step.step.kind) {
    case Kind::kByteFallback:
      tokens = join_bytes(tokens);
      break;
    case Kind::kFuse:
      tokens = {join(tokens)};
      break;
    case Kind::kStrip:
      for (std::string& token : tokens) token = strip(token, step.step);
      break;
    case Kind::kReplace:
      for (std::string& token : tokens) replace(token, step.step.content);
      break;
    case Kind::kMetaspace:
      for (size_t i = 0; i < tokens.size(); ++i)
        replace(tokens[i], i == 0 && step.step.drops_first ? "" : " ");
      break;
  }
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) apply(step, tokens);
  return join(tokens);
}

std::string Decoder::decode_inner(const std::string& token) const {
  // An empty token before it is the first one. After Fuse, the ends of the text are elsewhere.
  std::vector<std::string> tokens = {"", token};
  for (const Step& step : steps_) {
    if (step.step.kind == Kind::kFuse) break;
    apply(step, tokens);
  }
  return join(tokens);
}

}  // namespace tessera::data
