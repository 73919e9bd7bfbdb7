// Reads the normalizers, pre-tokenizers and decoders of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tree.h"
#include "data/decoder_steps.h"
#include "data/normalizer_steps.h"
#include "data/split_steps.h"

namespace tessera::data {

// Reads members of JSON objects. All functions throw Error with the location of what is missing or
// invalid.
class TokenizerJson {
 public:
  explicit TokenizerJson(std::string source) : source_(std::move(source)) {}

  [[noreturn]] void fail(const Tree& at, const std::string& message) const {
    throw Error("{}:{}:{}: {}", source_, at.line, at.column, message);
  }
  const Tree& need(const Tree& parent, std::string_view name) const;
  const std::string& text(const Tree& parent, std::string_view name) const;
  const Tree::List& list(const Tree& parent, std::string_view name) const;
  bool flag(const Tree& parent, std::string_view name, bool otherwise) const;
  size_t count(const Tree& parent, std::string_view name) const;
  // Returns the 'type' of a component; `what` names it in errors.
  const std::string& kind(const Tree& node, const char* what) const;
  PatternText pattern(const Tree& parent) const;  // {"String": …} or {"Regex": …}

 private:
  std::string source_;
};

// Appends the steps of a normalizer or decoder, which may be null or a Sequence.
void read_normalizer(const TokenizerJson& json, const Tree& node, std::vector<NormalizerStep>& out);
void read_decoder(const TokenizerJson& json, const Tree& node, std::vector<DecoderStep>& out);
// Appends the step of a pre-tokenizer that is not a Sequence and not ByteLevel.
void read_split(const TokenizerJson& json, const Tree& node, std::vector<SplitStep>& out);

}  // namespace tessera::data
