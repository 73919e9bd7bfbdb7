// Steps run one after the other on the whole piece of text, as in Hugging Face's tokenizers.
//
// Most steps do not change most texts. Each step first checks whether it could (ASCII for the forms
// of Unicode, a quick check for NFC), and the text is copied only if so.
#include "data/normalizer_steps.h"

#include <algorithm>

#include "data/unicode_sets.h"

namespace tessera::data {
namespace {

using Kind = NormalizerStep::Kind;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

NormalizationForm form_of(Kind kind) {
  if (kind == Kind::kNfd) return NormalizationForm::kNfd;
  if (kind == Kind::kNfkc) return NormalizationForm::kNfkc;
  return kind == Kind::kNfkd ? NormalizationForm::kNfkd : NormalizationForm::kNfc;
}

bool is_form(Kind kind) { return kind <= Kind::kNfkd; }

std::string_view stripped(std::string_view text, const NormalizerStep& step,
                          const UnicodeTable& table) {
  const auto space = [&](Utf8 u) { return (table[u.code] & kClassMask) == kSpace; };
  while (step.left && !text.empty()) {
    const Utf8 u = decode_utf8(text);
    if (!space(u)) break;
    text.remove_prefix(u.bytes);
  }
  while (step.right && !text.empty()) {
    const Utf8 u = decode_utf8_backwards(text);
    if (!space(u)) break;
    text.remove_suffix(u.bytes);
  }
  return text;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) {
    Step made{step, std::nullopt};
    if (step.kind == Kind::kReplace) made.pattern.emplace(step.pattern);
    if (step.kind == Kind::kStripAccents && marks_.empty()) {
      marks_.resize(CodeSet::kNotUtf8);
      const CodeSet marks = mark_set();
      for (const auto& [first, last] : marks.ranges())
        std::fill(marks_.begin() + first, marks_.begin() + last + 1, true);
    }
    keeps_gaps_ = keeps_gaps_ && (step.kind == Kind::kNfc || step.kind == Kind::kNfd);
    steps_.push_back(std::move(made));
  }
}

bool Normalizer::changes(const Step& step, std::string_view text) const {
  // Most text is in NFC already, which a quick check of its characters detects without a copy.
  if (step.step.kind == Kind::kNfc) return may_change_under_nfc(text, unicode_);
  if (is_form(step.step.kind) || step.step.kind == Kind::kStripAccents) return !is_ascii(text);
  return true;
}

void Normalizer::append(const Step& step, std::string_view text, std::string& out) const {
  if (is_form(step.step.kind))
    return append_normalized(text, form_of(step.step.kind), unicode_, out);
  switch (step.step.kind) {
    case Kind::kStrip:
      out += stripped(text, step.step, unicode_);
      return;
    case Kind::kPrepend:
      if (!text.empty()) out.append(step.step.content).append(text);
      return;
    case Kind::kReplace:
      return step.pattern->replace(text, step.step.content, out);
    default:
      break;
  }
  for (size_t i = 0; i < text.size();) {
    const Utf8 u = decode_utf8(text.substr(i));
    if (step.step.kind == Kind::kLowercase)
      append_lowercase(text.substr(i, u.bytes), out);
    else if (u.code == Utf8::kInvalid || !marks_[u.code])
      out += text.substr(i, u.bytes);
    i += u.bytes;
  }
}

std::string_view Normalizer::apply(std::string_view text, std::string& storage) const {
  for (const Step& step : steps_) {
    if (!changes(step, text)) continue;
    std::string next;
    next.reserve(text.size() + text.size() / 8);
    append(step, text, next);
    storage =
        std::move(next);  // `text` may be a view of the old content, which is no longer needed
    text = storage;
  }
  return text;
}

}  // namespace tessera::data
