// The special tokens that a Hugging Face tokenizer.json adds around a text: the template of its
// post-processor.
#pragma once

#include <string>

#include "base/tree.h"

namespace tessera {

struct TextTemplate {
  std::string begin, end;  // names of the tokens before and after a text; empty: none
};

// Reads the template from a whole tokenizer.json. A template is { "single": [{"SpecialToken":
// {"id": "<s>", …}}, {"Sequence": …}] } and may be one of several post-processors, each of which
// adds its tokens around the output of the previous ones. Of several tokens in a row only the
// outermost counts. Processors that are not templates add nothing.
TextTemplate read_text_template(const Tree& tokenizer_json);

}  // namespace tessera
