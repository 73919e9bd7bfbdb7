// Reads the "TemplateProcessing" post-processors of a Hugging Face tokenizer.json. Unknown keys are
// skipped, because the file may come from any version of the library.
#include "base/text_template.h"

#include <algorithm>

namespace tessera {
namespace {

const Tree* member(const Tree& tree, std::string_view name) {
  return tree.as_members() != nullptr ? tree.find(name) : nullptr;
}

// Returns the name of the special token of a template's element, or an empty text if the element is
// the input text.
std::string token_of(const Tree& piece) {
  const Tree* token = member(piece, "SpecialToken");
  const Tree* name = token != nullptr ? member(*token, "id") : nullptr;
  return name != nullptr && name->as_string() != nullptr ? *name->as_string() : "";
}

void read_processor(const Tree& processor, TextTemplate& out) {
  const Tree* all = member(processor, "processors");
  if (all != nullptr && all->as_list() != nullptr)
    // A sequence of processors runs in order, and each one adds its tokens outside of the previous
    // ones, so a later template overrides the outermost tokens.
    for (const Tree& one : *all->as_list()) read_processor(one, out);
  const Tree* single = member(processor, "single");
  if (single == nullptr || single->as_list() == nullptr) return;
  const Tree::List& pieces = *single->as_list();
  const auto is_text = [](const Tree& piece) { return member(piece, "Sequence") != nullptr; };
  if (std::none_of(pieces.begin(), pieces.end(), is_text)) return;
  if (const std::string name = token_of(pieces.front()); !name.empty()) out.begin = name;
  if (const std::string name = token_of(pieces.back()); !name.empty()) out.end = name;
}

}  // namespace

TextTemplate read_text_template(const Tree& tokenizer_json) {
  TextTemplate out;
  if (const Tree* processor = member(tokenizer_json, "post_processor"))
    read_processor(*processor, out);
  return out;
}

}  // namespace tessera
